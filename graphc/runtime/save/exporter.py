"""The programs of a plan, exported for the sizes of calls."""

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from graphc.errors import GraphError, graph_error, shortened
from graphc.ir.sizes.dims import symbols_in
from graphc.runtime.driver.devices import Target
from graphc.runtime.driver.misfits import has_flags
from graphc.runtime.save.abstract_calls import (
    AbstractCall,
    StageKey,
    Stages,
    load_segments,
)
from graphc.runtime.save.file_steps import file_steps
from graphc.runtime.save.graph_text import lift_constants
from graphc.transform.planning.driver import driver_of
from graphc.transform.planning.grouping import UNDIVIDED
from graphc.transform.planning.partition import partition
from graphc.transform.planning.plan import Plan
from graphc_serving.kinds import Shaped
from graphc_serving.steps import Row, Step

PLATFORMS = "cpu", "cuda", "rocm", "tpu"
ExportedModule = tuple[list[Any], bytes]  # the entry in the manifest, and the module


class Exporter(Stages):
    """Exports the programs of a plan by `jax.export`, and the driver beside them.

    The large constants of the programs are arguments.
    """

    def __init__(
        self, jax: ModuleType, plan: Plan, target: Target, platforms: Sequence[str]
    ) -> None:
        """Print the program of a plan once more, with constants as arguments."""
        lift = lift_constants(plan.graph)
        divided = partition(lift.graph, UNDIVIDED, plan.padded)
        divided = replace(divided, originals=plan.originals)
        module, source = load_segments(replace(divided, padded=None))
        around = driver_of(divided)
        driver = file_steps(around, source.checked)
        super().__init__(jax, plan, driver, module, target)
        self.platforms = platforms
        self.constants = [*lift.arrays, *driver.constants]
        self.wide: bool = not source.alone or source.wide
        self.programs: dict[StageKey, ExportedModule] = {}
        self.served: list[list[Any]] = []
        shapes = [v.type.shape for v in plan.called.inputs]
        self._axes = {s.name for shape in shapes for n in shape for s in symbols_in(n)}

    def export(self, call: AbstractCall) -> None:
        """Export the programs of a call, and record the sizes that they serve."""
        call.take()
        shapes = [list(call.stored.get(id(a), a.shape)) for a in call.arguments]
        sizes = {**call.sizes, **call.capacities}
        integers = {name: n for name, n in sizes.items() if name not in self._axes}
        if [shapes, integers] not in self.served:
            self.served.append([shapes, integers])

    def make(self, key: StageKey, arguments: Sequence[object]) -> Sequence[Shaped]:
        """Export the program of a stage for arguments of these types."""
        stage, statics, _ = key
        jitted = self.jitted(stage)
        with self.settings(stage):
            module = export_function(jitted, self.platforms, (*arguments, *statics))
            _require_fitting(self.jax, module)
        kinds = list(map(kinds_of, (arguments, module.out_avals)))
        self.programs[key] = [stage, list(statics), *kinds], bytes(module.serialize())
        outputs: Sequence[Shaped] = module.out_avals
        return outputs

    def steps(self) -> list[list[object]]:
        """Return the driver's steps, with the rows of capacities that came up."""
        ordered = [sorted(rows, key=_capacity_order) for rows in self.rows]
        tables = [list(map(list, rows)) for rows in ordered]
        return [_listed_step(step, tables) for step in self.driver.steps]


def _listed_step(step: Step, tables: Sequence[object]) -> list[object]:
    """List a step, with rows of capacities in place of the number of its policies."""
    word, parts = step
    if word == "capacities":
        return [word, *parts[:2], tables[parts[2]]]
    if word != "loop":
        return [word, *parts]
    loop = parts[0]
    return [word, loop._replace(body=[_listed_step(s, tables) for s in loop.body])]


def _capacity_order(row: Row) -> tuple[int, Row]:
    """Return the sort key by which smaller capacities come first."""
    return math.prod(row), row


def kinds_of(arrays: Iterable[Any]) -> list[list[object]]:
    """List types of arrays in the form that a manifest has."""
    return [["", a.dtype.name, list(a.shape)] for a in arrays]


def export_function(
    jitted: Any, platforms: Sequence[str], arguments: Sequence[object]
) -> Any:
    """Have JAX export a jitted function. Raises GraphError where it cannot."""
    make = importlib.import_module("jax.export").export
    try:
        module = make(jitted, platforms=platforms)(*arguments)
    except (NotImplementedError, ValueError) as error:
        if isinstance(error, GraphError):
            raise
        raise _not_exported(f"{type(error).__name__}: {error}") from None
    effects = *module.ordered_effects, *module.unordered_effects
    if effects:
        raise _not_exported(", ".join(map(str, effects)))
    return module


def _require_fitting(jax: ModuleType, module: ModuleType) -> None:
    """Raise GraphError where a branch does not fit the sizes that are exported.

    Only a call tells whether the branch is taken, and a file has no place for that.
    """
    structure = jax.tree_util.tree_unflatten(module.out_tree, module.out_avals)
    if not has_flags(structure):
        return
    (_, text, _), *_ = structure[1]
    raise graph_error(
        "a branch of cond or switch does not fit the sizes that are exported",
        op="export",
        got=text,
        hint="export sizes that fit all branches, or f.save(path), which serves others",
    )


def platforms_of(
    platform: str | None, platforms: Sequence[str] | None, default: str
) -> tuple[str, ...]:
    """Return the platforms to export for: those asked for, or `default`."""
    if platform is not None and platforms is not None:
        raise graph_error("give platform= or platforms=", op="export", got="both")
    asked = (platform or default,) if platforms is None else platforms
    chosen = (asked,) if isinstance(asked, str) else tuple(dict.fromkeys(asked))
    strange = [one for one in chosen if one not in PLATFORMS]
    if strange or not chosen:
        problem = f"there is no platform {strange[0]!r}" if strange else "no platform"
        expected = ", ".join(map(repr, PLATFORMS))
        raise graph_error(problem, op="export", expected=expected)
    return chosen


def _not_exported(why: str) -> GraphError:
    problem = "JAX cannot export the program"
    hint = "nothing in it may print, or call Python"
    return graph_error(problem, op="export", got=shortened(why), hint=hint)
