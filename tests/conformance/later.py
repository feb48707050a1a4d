"""The cases left to later parts of the project, and the part that owns each."""

LATER: dict[str, str] = {}
