"""The cases that are left to later parts of the project, and which part owns them."""

LATER: dict[str, str] = {}
