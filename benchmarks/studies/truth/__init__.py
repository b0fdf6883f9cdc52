r"""Generated DAEs whose solutions are known, solved in every way: what comes back is right, or it is refused.

A family makes a DAE from a seed, with everything that is true of it: u(t) and u'(t) as trigonometric
polynomials, the index of the equations and of each unknown, the degrees of freedom, the constraints and
hidden constraints at a point, the time scale. Every run has one line that repeats it, and one outcome:

=========  ===========================================================================================
done       success, and what came back is right
refused    an :class:`~dae_sdc.errors.InputError`, or numbers that the run itself names as less accurate
failed     ``success`` is False, an error of a computation, or the time limit; with a message
WRONG      success, and what came back is not right
CRASHED    an exception that is none of dae_sdc, raw text of a library under it, or a process that died
=========  ===========================================================================================

Refused and failed runs are counted by the class of their message.

DAEs as users write them
------------------------
The kinds ``plain`` (generated DAEs with what a user declares, with Jacobians, in any units) and ``written``
(square waves, circuits, mechanisms with typed starts, whose references are exact or of a second method) hold
every unknown of any index at all times given to

.. math:: |u_h(t) - u(t)| \le 100\, r\, (1 + |u(t)|), \qquad r = \mathrm{rtol},

in the units that the DAE was generated in. What a start with few digits leaves open is allowed besides. A
wrong answer is refused, with a message that begins with ``told``, only where the run names every unknown
that is off; any other warning or message excuses nothing.

Other runs to a tolerance
-------------------------
With h the smallest regular accepted step (the first one and the last, which the end cuts short, do not
count) and tau the time scale of the solution, an unknown of index k is right where at all times given

.. math:: |u_h(t) - u(t)| \le 100\, r\, (1 + |u(t)|) \max(1, \tau / h)^{k - 1}, \qquad r = \mathrm{rtol},

and not more than 1 + abs(u) in any case.

Runs with fixed steps
---------------------
These have no tolerance. What ``success`` claims is an answer that converges, and so every case is two runs,
with h and with h / 2, and e(h) is the largest error over the second half of the interval. With p the order
that theory gives an unknown of this index (Hairer, Lubich, Roche 1989; the records of the methods), the finer
one is wrong if e(h/2) is larger than all of

.. math::
    2^{-q} e(h), \quad (1 + |u|) \Bigl(\frac{h}{2 \tau}\Bigr)^p, \quad
    100\, \epsilon\, (1 + |u|) \Bigl(\frac{2 \tau}{h}\Bigr)^{k - 1}, \qquad q = \max(p - 1, p / 2),

or than 1 + abs(u). The first bound is convergence, with an order to spare for step sizes at which the leading
term does not rule yet; the second is the size that an error of order p has in the time scale of the solution;
the third is epsilon = 1e-10, the tolerance of nonlinear solves and sweeps, as index k amplifies it. Where
theory gives no order nothing is claimed, and a run counts as done.

The orders are those of Hessenberg forms and constant pencils. Equations whose derivatives stand in
combinations that change with time or state (the families ``varying`` and ``implicit``) keep order 1 at index
1; from index 2 on no method with fixed steps is known to converge on all of them (Brenan, Campbell, Petzold
1996, sec. 3.2 and 4.3). So p is 1 at index 1, and nothing is claimed above.

References
----------
E. Hairer, C. Lubich, M. Roche: The numerical solution of differential-algebraic systems by Runge-Kutta
methods, Springer 1989. K. E. Brenan, S. L. Campbell, L. R. Petzold: Numerical solution of initial-value
problems in differential-algebraic equations, SIAM 1996.
"""

from benchmarks.studies.truth.study import truth as truth
