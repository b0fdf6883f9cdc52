"""Faults of every kind in what a user hands to the package: it does what it is asked, or it says why not.

A kind of faults makes a case from a number, and every case has one line that repeats it, ``KIND:NUMBER``.
What comes of it is one of

=========  ===========================================================================================
done       it is carried out
told       a :class:`~dae_sdc.errors.DAEError`, a solution with a message, or one line on standard error
RAW        an exception that is none of dae_sdc, text of a library under it, or a process that died
LINES      a message of several lines, or none
HANG       no end within the time limit
NONSENSE   success, although what was given cannot be meant
TORN       a file that stands under its final name and cannot be read, or a temporary one that stays
LOST       a finished result that is not there any more
=========  ===========================================================================================

What a function of the user raises counts as told where a DAEError is chained to it. Nonsense is judged where
there is no doubt: NaN, a text or an object where a number is wanted, a file of which a part is missing, a
success with values that are not finite. A number that might be meant, such as -1, is not judged.
"""

from benchmarks.studies.faults.study import faults as faults
