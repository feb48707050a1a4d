"""Functions of elements, their dtypes, and selection per element."""
