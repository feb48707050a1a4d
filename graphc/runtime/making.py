"""The graph and options of a compiled function, to compile it again, also elsewhere."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphc.backends.program import Outputs
from graphc.errors import graph_error
from graphc.ir.graph.nodes import Graph
from graphc.ir.text.reader import parse_graph
from graphc.ir.types import NDArray
from graphc.runtime.call.arrangement import Arrangement
from graphc.runtime.examine import Input
from graphc.runtime.save.graph_text import lift_constants, restore_constants, text_of
from graphc.transform.policies import with_names_as_keys

if TYPE_CHECKING:
    from jax import Device


Make = Callable[..., Any]


@dataclass(frozen=True)
class Making:
    """The graph and the options of a compiled function, which `make` compiles.

    Copying a making returns the making itself. Pickled, it is the text of the graph,
    which is read and compiled where it is loaded: nothing compiled is carried along.
    """

    make: Make
    graph: Graph
    structure: Outputs
    defaults: Mapping[int, Any]
    options: Mapping[str, Any]
    arrangement: Arrangement | None = None

    def function(self) -> Any:
        """Compile the function anew, without any call so far."""
        declared = [
            Input(v, self.defaults[i]) if i in self.defaults else v
            for i, v in enumerate(self.graph.inputs)
        ]
        names = self.graph.input_names
        distinct = len(set(names)) == len(names)
        inputs: Any = dict(zip(names, declared, strict=True)) if distinct else declared
        if self.arrangement is not None:
            inputs = self.arrangement.around(declared)
        outputs = self.structure.built(self.graph.outputs)
        return self.make(inputs, outputs, **{**self.options, "unused": "ignore"})

    def __deepcopy__(self, memo: object) -> "Making":
        return self

    def __reduce__(self) -> tuple[object, ...]:
        lift = lift_constants(self.graph)
        options = dict(self.options)
        options["dims"] = with_names_as_keys(options["dims"], self.graph)
        options["device"] = _platform_name(options["device"])
        hint = "pickle what builds the function, or copy.copy(f) in one process"
        parts = self.make, text_of(lift.graph, "pickle", hint), lift.arrays
        described = self.structure, dict(self.defaults), options, self.arrangement
        return read_making, (*parts, *described)


def read_making(
    make: Make,
    text: str,
    arrays: list[NDArray],
    structure: Outputs,
    defaults: Mapping[int, object],
    options: Mapping[str, object],
    arrangement: Arrangement | None = None,
) -> Making:
    """Read a making from its text, whose last inputs are the constant `arrays`."""
    graph = restore_constants(parse_graph(text), arrays)
    return Making(make, graph, structure, defaults, options, arrangement)


def _platform_name(device: "Device | str | None") -> object:
    """Return the name of a device for other processes: its platform.

    Raises GraphError for a device that is not the first of its platform.
    """
    if device is None or isinstance(device, str):
        return device
    if device == importlib.import_module("jax").devices(device.platform)[0]:
        return device.platform
    problem, hint = "a device belongs to a process", 'name a platform, as device="gpu"'
    raise graph_error(problem, op="pickle", got=str(device), hint=hint)
