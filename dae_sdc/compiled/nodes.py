"""The memory on which Newton's method at the nodes of a step works."""

from __future__ import annotations

import ctypes

from dae_sdc.dae.memory import Counts, fields


class NodesMemory(ctypes.Structure):
    """Memory of Newton's method for n unknowns at M nodes, with up to S matrices; arrays are of doubles."""

    _fields_ = [
        *fields(
            ctypes.c_int64,
            "own",  # address of this structure
            "residual jacobian getrf getrs p",  # addresses of kernels, functions of LAPACK, parameters
            "linearize",  # in Python, where there are no kernels: both halves of the Jacobian
            "u du stride",  # the iterate: first node, the others follow ``stride`` doubles apart
            "times coefficients",  # of the nodes, (M,)
            "slots",  # which of the kept matrices belongs to a node, integers, (M,)
            "slot_nodes slot_coefficients used",  # of the matrices, (S,), the first integers; number of them
            "forgotten",  # whether all matrices were dropped
            "factors pivots",  # of LU, column by column, (S, n, n), and integers of 32 bits, (S, n)
            "masses stiffnesses",  # dF/du' and dF/du of the matrices, at last the guide's, (S + 1, n, n)
            "kept",  # see dae_sdc.dae.newton.KeptNumbers, (S,)
            "ages",  # number of the newest linearisation at every node, (M,); without a guide the first alone
            "newest",  # in which slot that is, -1 for none, integers, (M,)
            "value delta",  # F and the correction, (n,)
            "saved guide",  # the iterate at the begin of a solve, and where the common Jacobian is, (2, n)
            "tau",  # right-hand sides of F, (M, n); 0 without
            "weights",  # of the unknowns in the size of a correction, (n,); 0 for those of two groups
            "small",  # LAPACK's n, 1, its answer, and the letter N, integers of 32 bits
            "n n_integrated first capacity",  # numbers: of unknowns, of integrated ones, first node, S
            "split",  # of leading unknowns whose u' is measured
            "guided guide_known",  # whether a common Jacobian guides the nodes, and is known in this sweep
            "trust maxiter",  # whether contractions of earlier solves are believed
            "solve_at factorize_at",  # addresses of functions of machine_newton.py, "solve" and "factorize"
            "substitute refactorize",  # likewise those with sparse factors; 0 with dense ones
            "repivot solve_outside krylov",  # in Python: new pivots, solves by a linear solver, by GMRES or 0
            "triangles patterns",  # addresses of their parts, (S, 10), the first 0 without, and (S, 4)
            "lasted",  # factorisations with the same pivots, integers, (S,)
            "indices starts",  # of the CSC pattern, integers of 32 bits; 0 with dense matrices
            "work data",  # (4 n,), and the matrix that is factorised, (entries,)
            "node_u node_du slot age_at node entries",  # of the node that is solved for; numbers in a matrix
        ),
        ("time", ctypes.c_double),  # at which the Jacobian is evaluated
        # Of dae_sdc.dae.newton.iterate; factors in the size of a correction, ``unit`` that of ``weights``.
        *fields(ctypes.c_double, "tolerance residual_tolerance forcing differential algebraic unit"),
        ("counts", Counts),
    ]
