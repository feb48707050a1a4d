"""The graph and options of a compiled function, to compile it again, also elsewhere."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.backends.program import Outputs
from graphc.errors import graph_error
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.replay import substituted
from graphc.ir.graph.walk import ancestors
from graphc.ir.text.printer import has_text, to_text
from graphc.ir.text.reader import parse_graph
from graphc.runtime.call.arrangement import Arrangement
from graphc.runtime.examine import Input
from graphc.runtime.save.exporter import lift_constants
from graphc.transform.policies import with_names_as_keys

if TYPE_CHECKING:
    from jax import Device


Arrays = list["np.ndarray[Any, Any]"]
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
        parts = self.make, _graph_text(lift.graph), lift.arrays
        described = self.structure, dict(self.defaults), options, self.arrangement
        return restored, (*parts, *described)


def restored(
    make: Make,
    text: str,
    arrays: Arrays,
    structure: Outputs,
    defaults: Mapping[int, object],
    options: Mapping[str, object],
    arrangement: Arrangement | None = None,
) -> Making:
    """Read a making from its text, whose last inputs are the constant `arrays`."""
    graph = parse_graph(text)
    count = len(graph.inputs) - len(arrays)
    new = dict(zip(graph.inputs[count:], map(constant, arrays), strict=True))
    outputs = tuple(substituted(graph.outputs, new, {}))
    names = graph.input_names[:count]
    graph = Graph(graph.inputs[:count], outputs, names, graph.output_names)
    return Making(make, graph, structure, defaults, options, arrangement)


def _graph_text(graph: Graph) -> str:
    """Print a graph as text. Raises GraphError where a node has none."""
    for node in with_inner_nodes(ancestors(graph.outputs)):
        if not has_text(node):
            problem = f"{node.primitive.name} holds a function, and has no text"
            hint = "pickle what builds the function, or copy.copy(f) in one process"
            raise graph_error(problem, op="pickle", hint=hint, where=node.place)
    return to_text(graph)


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
