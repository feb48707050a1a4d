"""The exception for functions of JAX that cannot be read as graphs."""

from graphc.errors import SourceLocation


class Unsupported(Exception):
    """A function that cannot be imported; JAX itself has to compile it.

    `place` is the user's line, None where it is not known.
    """

    def __init__(self, reason: str, place: SourceLocation | None = None) -> None:
        super().__init__(f"{reason}, at {place}" if place else reason)
        self.reason = reason
        self.place = place
