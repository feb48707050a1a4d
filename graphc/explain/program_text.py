"""The texts of programs, and the part of them that is for people to read."""

from collections.abc import Iterable
from html import escape

# After the functions of the model come those that check its calls, and helpers.
_ENDS_OF_MODEL = "\n\n\ndef compiling(", "\n\n\ndef check_inputs("


class ProgramText(str):
    """The text of a program as it runs; `model` is the part of it to read.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n",))
    >>> f = graphc.function([x], gt.sum(x * x))
    >>> len(f.source.splitlines()) > 100, len(f.source.model.splitlines()) < 30
    (True, True)
    """

    model: str

    def __new__(cls, text: str, model: str = "") -> "ProgramText":
        """Make a text of which `model` is the part to read."""
        source = super().__new__(cls, text)
        source.model = model
        return source

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"

    @classmethod
    def of(cls, text: str) -> "ProgramText":
        """The text of one program, whose parts are in the order of `assemble`."""
        ends = [text.find(start) for start in _ENDS_OF_MODEL]
        end = min([end for end in ends if end >= 0], default=len(text))
        return cls(text, text[:end].rstrip("\n"))

    @classmethod
    def joined(cls, texts: Iterable[str]) -> "ProgramText":
        """The texts of several programs, one after another.

        Texts that are no ProgramText belong to the part to read as a whole.
        """
        parts = list(texts)
        models = [x.model if isinstance(x, ProgramText) else x for x in parts]
        return cls("\n\n".join(parts), "\n\n".join(models))
