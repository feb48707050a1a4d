"""User functions that a program calls on the host, on arrays of true sizes.

They take and return arrays without padding: arrays stored at a capacity are cut on the
way in, and results are padded on the way out.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from graphc.ir.graph.build import tuple_text
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Opaque, Printing, op
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param, Text
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import DType, JaxArray, NDArray, TensorType
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.effects.capacities import without_padding
from graphc.ops.effects.foreign import FOREIGN

SizePlace = int | None  # the place of an axis's size among those that vary
SizePlaces = tuple[tuple[SizePlace, ...], ...]  # for all axes of each array


@dataclass(frozen=True)
class HostFunction:
    """A user function of arrays, whose sizes differ from call to call.

    `identity` tells functions apart: those with equal identities compute the same. A
    function that `acts` does more than compute: it is called as often as the program
    says.
    """

    name: str
    dtypes: tuple[DType, ...]
    identity: Hashable
    call: Callable[..., Sequence[Any]] = field(compare=False)
    acts: bool = False


@dataclass(frozen=True)
class HostCall:
    """A call of a function; `taken` and `results` are places of the sizes of axes."""

    function: HostFunction
    taken: SizePlaces
    results: SizePlaces

    def on_host(
        self, shapes: Sequence[int], arrays: Sequence[NDArray]
    ) -> list[NDArray]:
        """Compute the results, whose shapes are given one after another.

        If sizes vary, the last array holds them.
        """
        arrays = [*map(np.asarray, arrays)]
        sizes = arrays.pop().tolist() if self._has_varying_sizes else []
        pairs = zip(arrays, self.taken, strict=True)
        shapes_taken = [_true_shape(x.shape, places, sizes) for x, places in pairs]
        cut = map(without_padding, arrays, shapes_taken)
        results = [*map(np.asarray, self.function.call(*cut))]
        stored = self._split_shapes(shapes)
        parts = zip(results, stored, self.results, strict=True)
        return [_pad_to(x, to, _true_shape(to, at, sizes)) for x, to, at in parts]

    def run(self, shapes: Sequence[int], arrays: Sequence[JaxArray]) -> list[JaxArray]:
        """Compute the results within a program that JAX compiles."""
        jax = import_module("jax")

        def called(*arrays: NDArray) -> list[NDArray]:
            return self.on_host(shapes, arrays)

        pairs = zip(self._split_shapes(shapes), self.function.dtypes, strict=True)
        make: Any = jax.ShapeDtypeStruct
        structs = [make(shape, dtype) for shape, dtype in pairs]
        if self.function.acts:
            io_callback = import_module("jax.experimental").io_callback
            return list(io_callback(called, structs, *arrays))
        call = jax.pure_callback
        return list(call(called, structs, *arrays, vmap_method="sequential"))

    @property
    def _has_varying_sizes(self) -> bool:
        places = [place for axes in (*self.taken, *self.results) for place in axes]
        return any(place is not None for place in places)

    def _split_shapes(self, shapes: Sequence[int]) -> list[tuple[int, ...]]:
        remaining = iter(shapes)
        return [tuple(next(remaining) for _ in places) for places in self.results]


def _true_shape(
    stored: Sequence[int], places: Sequence[SizePlace], sizes: Sequence[int]
) -> tuple[int, ...]:
    pairs = zip(stored, places, strict=True)
    return tuple(n if place is None else sizes[place] for n, place in pairs)


def _pad_to(array: NDArray, stored: tuple[int, ...], shape: tuple[int, ...]) -> NDArray:
    """Pad a result to the shape in which it is stored.

    Raises ValueError if the result does not have the shape `shape`.
    """
    if array.shape != shape:
        raise ValueError(f"a result must be of shape {shape}; got {array.shape}")
    ends = zip(stored, shape, strict=True)
    return np.pad(array, [(0, to - n) for to, n in ends]) if stored != shape else array


@op()
def _host_call(
    *values: Array, call: Opaque, shapes: tuple[Size, ...], asking: Text
) -> tuple[TensorType, ...]:
    """The results of a function on the host, which messages name as `asking`.

    `shapes` are the shapes of the results, one after another. If sizes of axes vary,
    the last value holds the true ones.
    """
    content: HostCall = call.content
    remaining = iter(shapes)
    return tuple(
        TensorType(dtype, tuple(next(remaining) for _ in places))
        for dtype, places in zip(content.function.dtypes, content.results, strict=True)
    )


def _print_call(p: Printing) -> str:
    content: HostCall = p.node.params["call"].content
    run = content.on_host if p.xp == "np" else content.run
    shapes = p.code(p.node.params["shapes"])
    return f"{p.foreign(content.function.name, run)}({shapes}, {tuple_text(p.inputs)})"


HOST_CALL = _host_call
CALLS = FOREIGN, HOST_CALL  # ops that may raise errors of user functions
_host_call.emit(_print_call)
_host_call.several = True
_host_call.on_host = False
_host_call.no_gradient("JAX has no gradients of functions that it calls on the host")


@_host_call.padding
def _(pad: Padding, *values: PaddedValue, **params: Param) -> tuple[Value, ...]:
    return _host_call.bind(tuple(x.value for x in values), params).outputs


def host_call(
    function: HostFunction,
    values: Sequence[Value],
    shapes: Sequence[Sequence[Size]],
) -> tuple[Value, ...]:
    """The results of a host function called on `values`; `shapes` are theirs."""
    varying: dict[Dim, int] = {}

    def places(shape: Sequence[Size]) -> tuple[SizePlace, ...]:
        return tuple(
            varying.setdefault(n, len(varying)) if isinstance(n, Dim) else None
            for n in shape
        )

    taken = tuple(places(v.type.shape) for v in values)
    call = HostCall(function, taken, tuple(map(places, shapes)))
    params: dict[str, Param] = {
        "call": Opaque(function.name, call),
        "shapes": tuple(n for shape in shapes for n in shape),
        "asking": Text(function.name),
    }
    sizes = [F.stack([F.size_value(n) for n in varying])] if varying else []
    return _host_call.bind((*values, *sizes), params).outputs
