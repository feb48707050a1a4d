"""The entry of a padded program: true sizes in, capacities inside, true sizes out."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from graphc.backends.layout import indent
from graphc.backends.module import Module
from graphc.backends.placing import placer
from graphc.backends.program import (
    Outputs,
    checked_once,
    function_name,
    print_step,
    print_steps,
)
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
from graphc.ir.graph.build import tuple_text
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Symbol
from graphc.ir.types import JaxArray, NDArray
from graphc.ops.effects.capacities import (
    Capacities,
    among,
    among_options,
    capacity_call,
    doublings_ahead,
    tied_places,
    together,
    without_padding,
)
from graphc.transform.planning.driver import (
    ChooseCapacities,
    CutResult,
    Driver,
    RequireSizes,
    RunOnCapacities,
)
from graphc.transform.planning.plan import Plan
from graphc.transform.sharding.layout import MeshLayout
from graphc.transform.tied_sizes import needed_alone


def with_padding(array: NDArray, shape: tuple[int, ...]) -> object:
    """Printed into programs: `array`, extended by zeros to `shape`."""
    if array.shape == shape:
        return array
    result = np.zeros(shape, array.dtype)
    result[tuple(map(slice, array.shape))] = array
    return result


def with_padding_jax(jax: ModuleType, array: Any, shape: tuple[int, ...]) -> object:
    """Printed into programs: a copy of `array`, extended by zeros to `shape`.

    Nothing is compiled for it. The copy stays on the device that the array is committed
    to, if there is one.
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
    # An array of NumPy, which pyright takes it for, is not committed.
    place = array.sharding if getattr(array, "committed", False) else None  # pyright: ignore[reportAttributeAccessIssue]
    if place is not None and len(place.device_set) > 1:
        place = None
    if place is None and not jax.config.jax_disable_jit:
        return result
    with jax.enable_x64(True):  # what is not traced is written for arrays of JAX
        return jax.device_put(result, place)


def where_xla_takes_it(zeros: NDArray) -> NDArray:
    """Printed into programs: as many zeros, aligned so that XLA need not copy them."""
    size = zeros.nbytes
    room = np.zeros(size + 64, "uint8")
    start = -room.ctypes.data % 64
    return room[start : start + size].view(zeros.dtype).reshape(zeros.shape)


def without_padding_jax(
    jax: ModuleType,
    on_device: Callable[..., object],
    array: JaxArray,
    shape: tuple[int, ...],
) -> object:
    """Printed into programs: `array`, cut to its true `shape` on the host.

    Nothing is compiled for that size. The result may share memory with the array,
    unless that would keep a large buffer for a small result. An array that is spread
    over several devices is cut where it lies.
    """
    traced = isinstance(array, jax.core.Tracer)
    if traced or (array.committed and len(array.sharding.device_set) > 1):
        return array[tuple(map(slice, shape))]
    stored = np.asarray(array)
    true_part = stored[tuple(map(slice, shape))]
    if true_part.shape == stored.shape:
        return array
    if 2 * true_part.size < stored.size:
        true_part = true_part.copy()
    return on_device(true_part, array)


class Entry(PrintedBody):
    """The function `program` around the one on capacities, which runs in `xp`."""

    def __init__(self, module: Module, xp: str, layout: MeshLayout | None) -> None:
        super().__init__(module, "np", reads=True)
        self.in_jax: bool = xp != "np"
        self.layout = layout
        self.branches: list[RequireSizes] = []
        self.results: list[str] = []  # of the function on capacities
        mesh = None if layout is None else layout.mesh
        self.processes = 0 if mesh is None else mesh.processes

    def place(self, value: Value) -> str:
        """The sharding of an argument as text; "" where there is no mesh."""
        return "" if self.layout is None else sharding_text(self.layout.of(value) or ())


def emit_entry(
    module: Module, plan: Plan, driver: Driver, outputs: Outputs, xp: str
) -> list[str]:
    """The text of the driver that surrounds the one on capacities."""
    names = list(map(module.value_name, driver.graph.inputs))
    body = Entry(module, xp, plan.layout)
    processes = _agreement_lines(body, names)
    print_steps(body, driver, names)
    pairs = zip(driver.results, body.results, strict=True)
    results = [_cut_text(body, result, name) for result, name in pairs]
    body.line(f"return {outputs.text(results)}")
    rooms = ["ROOMS = {}  # capacities that calls had"] * (among in module.helpers)
    head = [*rooms, "CHECKED = set()", "", "", f"def program({', '.join(names)}):"]
    if not body.in_jax:
        head.insert(-1, '@np.errstate(all="ignore")')
    return head + indent(processes + checked_once(driver.graph, names) + body.lines)


@print_step.register
def _(step: RequireSizes, body: Entry) -> None:
    """Print a guard on integers, or note one of a branch for the call.

    Relations of shapes alone are checked elsewhere, once per combination of shapes.
    """
    if step.decided_by == "integers":
        body.line(body.guard_text(step.guard, step.node))
    elif step.decided_by == "branch":
        body.branches.append(step)


@print_step.register
def _(step: ChooseCapacities, body: PrintedBody) -> None:
    """Choose capacities, first in one line those of sizes that vary together."""
    for i, symbol in needed_alone(step.sizes, step.symbols):
        how = capacity_call(step.capacities[i])
        choice = body.module.helper_call(body.code(step.sizes[i]), *how)
        _bind_capacities(body, [symbol], choice)
    tied = tied_places(step.capacities)
    if tied:
        sizes = [body.code(step.sizes[i]) for i in tied]
        choice = _joint_capacities(body, sizes, [step.capacities[i] for i in tied])
        _bind_capacities(body, [step.symbols[i] for i in tied], choice)
    triples = zip(step.sizes, step.symbols, step.capacities, strict=True)
    for true_size, symbol, capacities in triples:
        if not body.knows(symbol):
            size = body.code(true_size)
            choice = body.module.helper_call(size, *capacity_call(capacities))
            _bind_capacities(body, [symbol], choice)


def _joint_capacities(
    body: PrintedBody, sizes: Sequence[str], capacities: Sequence[Capacities]
) -> str:
    """The expression for the capacities of sizes that are chosen together."""
    aheads, options = doublings_ahead(capacities), among_options(capacities)
    calls, text_of = list(map(capacity_call, capacities)), body.module.helper_call
    if aheads:
        how = aheads, capacities[0].minimum, *(options or ())
        needed = text_of(tuple_text(sizes), together, how)
    elif all(call == calls[0] for call in calls):
        needed = f"[{text_of('n', *calls[0])} for n in {tuple_text(sizes)}]"
    else:
        pairs = zip(sizes, calls, strict=True)
        needed = f"[{', '.join([text_of(n, *call) for n, call in pairs])}]"
    if not options:
        return needed
    arguments = (*options, *([aheads] if any(aheads) else []))
    return text_of(f"ROOMS, {needed}", among, arguments)


def _bind_capacities(
    body: PrintedBody, symbols: Sequence[Symbol], capacities: str
) -> None:
    """Print the line that assigns capacities to the names of `symbols`."""
    names = list(map(body.module.size_name, symbols))
    body.line(f"{', '.join(names)} = {capacities}")
    body.bind_sizes(symbols, names)


@print_step.register
def _(step: RunOnCapacities, body: Entry) -> None:
    module = body.module
    pairs = zip(step.arguments, step.stored, strict=True)
    stored = [_padded_text(body, old, new) for old, new in pairs]
    arguments = [*stored, *map(body.size, step.lengths)]
    split = len(step.driver.results) - len(step.counts)
    body.results = [module.names.unique("result") for _ in range(split)]
    counts = list(map(module.size_name, step.counts))
    target = tuple_text([*body.results, *counts])[1:-1]
    call = _padded_call(body, arguments)
    body.line(f"{target} = {call}" if target else call)
    for symbol, name in zip(step.counts, counts, strict=True):
        body.line(f'{name} = integer("{label(symbol.name)}", {name})')
        body.bind_size(symbol, name)


def _agreement_lines(body: Entry, names: list[str]) -> list[str]:
    """The lines by which several processes agree on a call before anything else."""
    if body.layout is None or not body.processes:
        return []
    arguments = ", ".join([f"{name!r}: {name}" for name in names])
    agree = body.module.helper(agree_between)
    how = f"ProgramError, {body.processes}, {body.layout.mesh.wait:g}, PROGRAM"
    return [f"{agree}(jax, {how}, {{{arguments}}})"]


def _padded_call(body: Entry, arguments: list[str]) -> str:
    """The call on capacities, which is passed the guards of branches that fail."""
    run, joined = function_name(padded=True), ", ".join(arguments)
    module, errors = body.module, "misfits"
    if body.layout is not None:
        on_mesh = f"{module.helper(run_on_mesh)}(jax, MESH, {run}"
        if not body.branches:
            return f"{on_mesh}, {joined})"
        run = f"(lambda *args: {on_mesh}, *args))"
    if not body.branches:
        return f"{run}({joined})"
    body.line(f"{errors} = {{}}")
    for number, step in enumerate(body.branches):
        holds, message = body.guard_parts(step.guard, step.node)
        if "//" in holds or "%" in holds:  # perhaps by zero
            check = f"lambda: require({holds}, {message})"
            arguments_text = f"{errors}, {number}, {check}"
            body.line(f"{module.helper(add_error)}({arguments_text})")
            continue
        body.line(f"if not {holds}:")
        error = f"{module.helper(guard_error)}({message})"
        body.line(f"    {errors}[{number}] = {error}")
    arguments_text = f"{run}, {tuple_text(arguments)}, {errors}, {body.in_jax}"
    misfit_call = f"{module.helper(with_misfits)}({arguments_text})"
    return f"{misfit_call} if {errors} else {run}({joined})"


def _padded_text(body: Entry, old: Value, new: Value) -> str:
    """The expression of an argument in the form in which it is stored."""
    name, place, helper = body.value(old), body.place(new), body.module.helper
    if old is new and not place:
        return name
    if old is new:
        whole = whole_across if body.processes else whole_on_mesh
        return f"{helper(whole)}(jax, {name}, {place})"
    sizes = body.code(new.type.shape)
    if place:
        on_mesh = with_padding_across if body.processes else with_padding_on_mesh
        return f"{helper(on_mesh)}(jax, {name}, {sizes}, {place})"
    if body.in_jax:
        return f"{helper(with_padding_jax)}(jax, {name}, {sizes})"
    return f"{helper(with_padding)}({name}, {sizes})"


def _cut_text(body: Entry, result: CutResult, name: str) -> str:
    """The expression of a result, cut to its true sizes."""
    if not result.cut:
        return name
    sizes = enumerate(result.value.type.shape)
    shape = body.code(tuple([n if i in result.cut else None for i, n in sizes]))
    helper = body.module.helper
    if not body.in_jax:
        return f"{helper(without_padding)}({name}, {shape})"
    if body.layout is not None:
        on_mesh = without_padding_across if body.processes else without_padding_on_mesh
        return f"{helper(on_mesh)}(jax, {name}, {shape}, on_mesh())"
    place = placer(body.module)
    return f"{helper(without_padding_jax)}(jax, {place}, {name}, {shape})"
