"""Which axes of a function's arguments vary, and together with which others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.importers.jax.tracing import Spec, SpecShape

LEAST = 2  # JAX traces an axis of one element, or of none, otherwise than longer ones
MOST_SHOWN = 4  # arrays whose shapes are all told, where nothing varies in them
ShapesOfCall = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SizePattern:
    """The shape of each argument: numbers, and names of the sizes that vary.

    A size that varies is `least` at least.
    """

    shapes: tuple[SpecShape, ...]
    least: int = LEAST

    @property
    def names(self) -> list[str]:
        """The names of the sizes that vary."""
        found = (n for shape in self.shapes for n in shape if isinstance(n, str))
        return list(dict.fromkeys(found))

    def sizes(self, given: ShapesOfCall) -> dict[str, int] | None:
        """The sizes of the names in a call; None where its shapes do not fit."""
        found: dict[str, int] = {}
        for shape, own in zip(self.shapes, given, strict=True):
            if len(shape) != len(own):
                return None
            for n, m in zip(shape, own, strict=True):
                if (found.setdefault(n, m) if isinstance(n, str) else n) != m:
                    return None
        return found

    def has(self, given: ShapesOfCall) -> bool:
        """Whether the shapes of a call fit, and no size that varies is too small."""
        found = self.sizes(given)
        return found is not None and all(n >= self.least for n in found.values())

    def shown(self, shapes: ShapesOfCall) -> str:
        """The sizes of the names in a call, as text."""
        sizes = self.sizes(shapes) or {}
        return ", ".join(f"{name} = {n}" for name, n in sizes.items())

    def axes(self, arrays: Sequence[str]) -> dict[str, str]:
        """The first axis of each name, of arrays of these names: `x.shape[0]`."""
        found: dict[str, str] = {}
        for array, shape in zip(arrays, self.shapes, strict=True):
            for i, n in enumerate(shape):
                if isinstance(n, str):
                    found.setdefault(n, f"{array}.shape[{i}]")
        return found

    def specs(self, like: Sequence[Spec]) -> list[Spec]:
        """Arguments of these shapes, otherwise as given."""
        pairs = zip(self.shapes, like, strict=True)
        return [Spec(shape, one.dtype, one.weak) for shape, one in pairs]

    def fixed(self, name: str, size: int) -> "SizePattern":
        """The pattern with a number in the place of a name."""
        shapes = tuple(
            tuple(size if n == name else n for n in shape) for shape in self.shapes
        )
        return replace(self, shapes=shapes)

    def __str__(self) -> str:
        shown: list[str] = []
        for shape in self.shapes:
            text = " ".join(map(str, shape)) or "()"
            varies = any(isinstance(n, str) for n in shape)
            plain = len(self.shapes) > MOST_SHOWN and not varies
            if not (plain and shown[-1:] == ["..."]):
                shown.append("..." if plain else text)
        return ", ".join(shown)


def shapes_of(specs: Sequence[Spec]) -> ShapesOfCall:
    """The shapes of the arguments of a call."""
    return tuple(tuple(map(int, spec.shape)) for spec in specs)


def generalised(seen: Sequence[ShapesOfCall]) -> SizePattern:
    """The pattern of several calls: axes that were always equal have one name."""
    columns = [
        [tuple(sizes) for sizes in zip(*shapes, strict=True)]
        for shapes in zip(*seen, strict=True)
    ]
    vary = dict.fromkeys(c for shape in columns for c in shape if len(set(c)) > 1)
    names = dict(zip(vary, _names(len(vary)), strict=True))
    shapes = tuple(tuple(names.get(c, c[0]) for c in shape) for shape in columns)
    return SizePattern(shapes)


def _names(count: int) -> list[str]:
    letters = "nmkpqrst"
    return [letters[i] if i < len(letters) else f"n{i}" for i in range(count)]


def varying(given: ShapesOfCall, seen: Sequence[ShapesOfCall]) -> list[int]:
    """The sizes of a call, of those axes whose size has been another."""
    found = []
    for i, shape in enumerate(given):
        for j, n in enumerate(shape):
            if any(other[i][j] != n for other in seen):
                found.append(n)
    return found
