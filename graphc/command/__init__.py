"""The command line: `graphc COMMAND`, or `python -m graphc COMMAND`.

A target and sizes enter as text; what the command tells leaves on stdout, as text or
JSON, and everything else on stderr. Begin at `main`.
"""
