"""The entry of a padded program: true sizes in, capacities inside, true sizes out."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from graphc.backends.layout import indent, tuple_text
from graphc.backends.module import Module
from graphc.backends.placing import placer
from graphc.backends.program import Outputs, checked_once, entry
from graphc.backends.sharding.across import (
    whole_across,
    with_padding_across,
    without_padding_across,
)
from graphc.backends.sharding.agreement import agree_between
from graphc.backends.sharding.arrays import (
    run_on_mesh,
    whole_on_mesh,
    with_padding_on_mesh,
    without_padding_on_mesh,
)
from graphc.backends.sharding.text import sharding_text
from graphc.backends.source import PrintedBody
from graphc.control.fitting_branches import add_error, guard_error, with_misfits
from graphc.errors import label
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Symbol
from graphc.ir.types import JaxArray, NDArray
from graphc.ops.effects.capacities import (
    capacity_call,
    tied_call,
    tied_places,
)
from graphc.transform.padding.pad import PaddedGraph
from graphc.transform.planning.plan import Plan
from graphc.transform.policies import Pad
from graphc.transform.tied import capacities_of


def with_padding(array: NDArray, shape: tuple[int, ...]) -> object:
    """Printed into programs: the array with zeros behind it."""
    if array.shape == shape:
        return array
    result = np.zeros(shape, array.dtype)
    result[tuple(map(slice, array.shape))] = array
    return result


def with_padding_jax(jax: ModuleType, array: Any, shape: tuple[int, ...]) -> object:
    """Printed into programs: a copy with zeros behind; nothing is compiled for it.

    It stays on the device that the array is committed to, if it is one.
    """
    if isinstance(array, jax.core.Tracer):
        widths = [(0, n - m) for n, m in zip(shape, array.shape)]  # noqa: B905
        return jax.numpy.pad(array, widths)
    result = np.zeros(shape, array.dtype)
    if result.nbytes >= 2**16:
        result = where_xla_takes_it(result)
    result[tuple(map(slice, array.shape))] = array
    if type(array) is np.ndarray and not jax.config.jax_disable_jit:
        return result
    place = array.sharding if getattr(array, "committed", False) else None
    if place is not None and len(place.device_set) > 1:
        place = None
    if place is None and not jax.config.jax_disable_jit:
        return result
    with jax.enable_x64(True):  # what is not traced is written for arrays of JAX
        return jax.device_put(result, place)


def where_xla_takes_it(zeros: NDArray) -> NDArray:
    """Printed into programs: as many where XLA needs no copy of them."""
    size = zeros.nbytes
    room = np.zeros(size + 64, "uint8")
    start = -room.ctypes.data % 64
    return room[start : start + size].view(zeros.dtype).reshape(zeros.shape)


def without_padding(array: NDArray, shape: tuple[int, ...]) -> object:
    """Printed into programs: the part that counts."""
    return array if array.shape == shape else array[tuple(map(slice, shape))]


def without_padding_jax(
    jax: ModuleType,
    on_device: Callable[..., object],
    array: JaxArray,
    shape: tuple[int, ...],
) -> object:
    """Printed into programs: cut on the host, where nothing is compiled for a size.

    The result may share memory with the array, unless that would keep much for little.
    What is spread over several devices is cut where it is.
    """
    traced = isinstance(array, jax.core.Tracer)
    if traced or (array.committed and len(array.sharding.device_set) > 1):
        return array[tuple(map(slice, shape))]
    stored = np.asarray(array)
    found = stored[tuple(map(slice, shape))]
    if found.shape == stored.shape:
        return array
    if 2 * found.size < stored.size:
        found = found.copy()
    return on_device(found, array)


class Entry:
    """Prints the function `program` around that on capacities."""

    def __init__(
        self, module: Module, plan: Plan, padded: PaddedGraph, xp: str
    ) -> None:
        self._module = module
        self._plan = plan
        self._padded = padded
        self._xp = xp
        self._layout = plan.layout
        self._body = PrintedBody(module, "np", reads=True)

    def lines(self, names: list[str], outputs: Outputs) -> list[str]:
        """The text; `names` are those of the arguments."""
        original = self._padded.original
        processes = self._agreement(names)
        for value, name in zip(original.inputs, names, strict=True):
            self._body.bind(value, name)
        for guard, node in self._padded.guards_by(integers=True):
            self._body.line(self._body.guard_text(guard, node))
        arguments = self._arguments(names)
        results = [self._module.names.unique("result") for _ in original.outputs]
        counts = [self._module.size_name(s) for s in self._padded.counts]
        target = tuple_text([*results, *counts])[1:-1]
        call = self._call(arguments)
        self._body.line(f"{target} = {call}" if target else call)
        for symbol, name in zip(self._padded.counts, counts, strict=True):
            self._body.line(f'{name} = integer("{label(symbol.name)}", {name})')
            self._body.bind_size(symbol, name)
        found = [
            self._cut(value, axes, name)
            for value, axes, name in zip(
                original.outputs, self._padded.ragged, results, strict=True
            )
        ]
        self._body.line(f"return {outputs.text(found)}")
        head = ["CHECKED = set()", "", "", f"def program({', '.join(names)}):"]
        lines = processes + checked_once(original, names) + self._body.lines
        if self._xp == "np":
            head.insert(3, '@np.errstate(all="ignore")')
        return head + indent(lines)

    def _agreement(self, names: list[str]) -> list[str]:
        """The lines by which several processes agree on a call, before all else."""
        mesh = None if self._layout is None else self._layout.mesh
        if mesh is None or not mesh.processes:
            return []
        arguments = ", ".join([f"{name!r}: {name}" for name in names])
        agree = self._module.helper(agree_between)
        how = f"ProgramError, {mesh.processes}, {mesh.wait:g}, PROGRAM"
        return [f"{agree}(jax, {how}, {{{arguments}}})"]

    @property
    def _several(self) -> bool:
        """Whether the mesh has devices of several processes."""
        return self._layout is not None and bool(self._layout.mesh.processes)

    def _call(self, arguments: list[str]) -> str:
        """The call on capacities, which is told of guards of branches that fail."""
        run, joined = entry(padded=True), ", ".join(arguments)
        module, errors = self._module, "misfits"
        if self._layout is not None:
            on_mesh = f"{module.helper(run_on_mesh)}(jax, MESH, {run}"
            if not self._padded.branch_guards:
                return f"{on_mesh}, {joined})"
            run = f"(lambda *args: {on_mesh}, *args))"
        if not self._padded.branch_guards:
            return f"{run}({joined})"
        self._body.line(f"{errors} = {{}}")
        for number, (guard, node) in enumerate(self._padded.branch_guards):
            holds, message = self._body.guard_parts(guard, node)
            if "//" in holds or "%" in holds:  # perhaps by zero
                check = f"lambda: require({holds}, {message})"
                arguments_text = f"{errors}, {number}, {check}"
                self._body.line(f"{module.helper(add_error)}({arguments_text})")
                continue
            self._body.line(f"if not {holds}:")
            error = f"{module.helper(guard_error)}({message})"
            self._body.line(f"    {errors}[{number}] = {error}")
        arguments_text = f"{run}, {tuple_text(arguments)}, {errors}, {self._xp != 'np'}"
        with_them = f"{module.helper(with_misfits)}({arguments_text})"
        return f"{with_them} if {errors} else {run}({joined})"

    def _arguments(self, names: list[str]) -> list[str]:
        """The padded arguments, then the true sizes."""
        self._tied(self._padded.capacities)
        for symbol, capacity in self._padded.capacities.items():
            size = self._body.size(symbol)
            policy = self._padded.policies[symbol]
            assert isinstance(policy, Pad)
            function, rest = capacity_call(policy.capacities)
            call = ", ".join([size, *map(repr, rest)])
            name = self._module.size_name(capacity)
            if not self._body.knows(capacity):
                self._body.line(f"{name} = {self._module.helper(function)}({call})")
                self._body.bind_size(capacity, name)
        given = zip(
            self._padded.original.inputs, self._plan.graph.inputs, names, strict=False
        )
        arrays = [self._pad(old, new, name) for old, new, name in given]
        return arrays + [self._body.size(s) for s in self._padded.lengths]

    def _tied(self, capacities: Mapping[Symbol, Symbol]) -> None:
        """The line that chooses the capacities of sizes that vary together, if any."""
        all_capacities = capacities_of(self._padded.policies, capacities)
        places = tied_places(all_capacities)
        if not places:
            return
        tied = [list(capacities)[i] for i in places]
        sizes = tuple_text([self._body.size(s) for s in tied])
        choose, options = tied_call([all_capacities[i] for i in places])
        call = ", ".join([sizes, *map(repr, options)])
        names = [self._module.size_name(capacities[s]) for s in tied]
        function = self._module.helper(choose)
        self._body.line(f"{', '.join(names)} = {function}({call})")
        for symbol, name in zip(tied, names, strict=True):
            self._body.bind_size(capacities[symbol], name)

    def _pad(self, old: Value, new: Value, name: str) -> str:
        place = self._place(new)
        if old is new and place:
            helper = self._module.helper(
                whole_across if self._several else whole_on_mesh
            )
            return f"{helper}(jax, {name}, {place})"
        if old is new:
            return name
        sizes = self._body.code(new.type.shape)
        if place:
            helper = self._module.helper(
                with_padding_across if self._several else with_padding_on_mesh
            )
            return f"{helper}(jax, {name}, {sizes}, {place})"
        if self._xp == "np":
            return f"{self._module.helper(with_padding)}({name}, {sizes})"
        return f"{self._module.helper(with_padding_jax)}(jax, {name}, {sizes})"

    def _place(self, value: Value) -> str:
        """The sharding of an argument, where there is a mesh."""
        if self._layout is None:
            return ""
        return sharding_text(self._layout.of(value) or ())

    def _cut(self, value: Value, axes: frozenset[int], name: str) -> str:
        if not axes:
            return name
        sizes = enumerate(value.type.shape)
        shape = self._body.code(tuple([n if i in axes else None for i, n in sizes]))
        if self._xp == "np":
            return f"{self._module.helper(without_padding)}({name}, {shape})"
        if self._layout is not None:
            helper = self._module.helper(
                without_padding_across if self._several else without_padding_on_mesh
            )
            return f"{helper}(jax, {name}, {shape}, on_mesh())"
        helper, place = self._module.helper(without_padding_jax), placer(self._module)
        return f"{helper}(jax, {place}, {name}, {shape})"
