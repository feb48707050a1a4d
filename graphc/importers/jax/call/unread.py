"""Sizes that nothing reads: a program compiled for one of them serves all.

The first call of a function is compiled for its sizes, before anyone can know which of
them matter. If a trace at symbols later shows that nothing computed depends on a size,
calls with other values of it run the same program. JAX compiled that program for
arguments of the first sizes, though the program does not read the arguments that have
this size. So arrays of the first sizes, which cost no memory, stand in for those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from graphc.importers.jax.call.exact import Exact
from graphc.importers.jax.call.program import JaxProgram
from graphc.importers.jax.sizes.pattern import ShapesOfCall
from graphc.importers.jax.trace.captures import Snapshot
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import Spec, TracedFunction
from graphc.ir.types import ConcreteArray
from graphc.transform.policies import symbols_of
from graphc.transform.printed_sizes import printed_symbols


@dataclass(frozen=True)
class FirstExact:
    """The program for a family's first sizes, and the arrays captured then."""

    sizes: ShapesOfCall
    compiled: Exact
    captured: Snapshot

    def trace_at(self, sizes: ShapesOfCall, subject: Subject) -> TracedFunction | None:
        """The trace of the program, if it was made at these sizes."""
        if sizes != self.sizes or subject.differentiated is not None:
            return None
        return self.compiled.traced

    def serves(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        """Whether this program does at `sizes` what a program for many sizes does.

        It does not if code decides by a size, since that reads the size.
        """
        pattern, how = program.pattern, program.decisions
        if program.is_sampled or how.taken or how.opaque is not None:
            return False
        if program.read.subject.differentiated is not None:
            return False
        here, first = pattern.sizes(sizes), pattern.sizes_if_fit(self.sizes)
        if first is None or not pattern.has(self.sizes):
            return False
        differing = {name for name, n in here.items() if first[name] != n}
        if differing & _names_read(program) or not self.captured.is_current():
            return False
        return program.read.agrees(self.compiled.traced, first)


def _names_read(program: JaxProgram) -> set[str]:
    """The names of the sizes that a program computes with."""
    graph = program.source.graph
    symbols = {
        *symbols_of(graph),
        *(s for node in graph.nodes for s in printed_symbols(node)),
    }
    return {name for name, s in program.decisions.symbols.items() if s in symbols}


def leaves_at_other_sizes(
    leaves: Sequence[ConcreteArray], specs: Sequence[Spec], sizes: ShapesOfCall
) -> dict[int, object] | None:
    """Arrays of these `sizes` to replace leaves of other shapes, by position.

    Returns None if JAX would compile anew for them, since it looks at the placement of
    arrays.
    """
    replacements: dict[int, Any] = {}
    for i, (leaf, spec, shape) in enumerate(zip(leaves, specs, sizes, strict=True)):
        if tuple(spec.shape) == shape:
            continue
        if not isinstance(leaf, (np.ndarray, jax.Array)) or spec.weak:
            return None
        if isinstance(leaf, jax.Array) and leaf.committed:
            return None
        if not isinstance(leaf.dtype, np.dtype):  # a dtype of keys
            return None
        replacements[i] = np.broadcast_to(np.zeros((), leaf.dtype), shape)
    return replacements
