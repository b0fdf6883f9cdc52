r"""Consistent initial values whose truth is known: what is found is right, or it is told.

A line is one start, and has one outcome:

=========  ===========================================================================================
done       every equation and hidden constraint holds to 1e-8 of its terms, held values are kept to the last
           bit and bounds are kept; where the held values determine all others, these are true to 1e-6
refused    values that contradict each other were refused, by a name of one of them
failed     a start exists, or the names are missing, and an error was told
WRONG      none of that, and nothing was told
CRASHED    an exception that is none of dae_sdc, raw text of a library under it, or a process that died
=========  ===========================================================================================

Generated starts are members of the families of :mod:`benchmarks.studies.truth`, alone or in a chain; columns,
diodes and power flows are starts from afar.
"""

from benchmarks.studies.starts.study import starts as starts
