"""Compiled functions: binding arguments, calling, and the log of compilations."""
