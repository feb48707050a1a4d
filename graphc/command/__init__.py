"""The command line: `graphc COMMAND`, or `python -m graphc COMMAND`.

In: the words that a person types: a function's file and name, sizes.
Out: text or JSON on stdout, everything else on stderr, and an exit code.
Begin at `main`, then `subject` (the function that a command is about).
"""
