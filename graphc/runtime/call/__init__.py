"""Calls: from the arguments of a user to those of a program.

In: arguments of any kind that NumPy takes.
Out: arrays and sizes, checked; a plan by which later calls of the kind run.
Begin at `arguments`, then `plan` and `lines` (a call plan as straight code).
"""
