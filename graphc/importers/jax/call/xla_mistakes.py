"""Detect traces of JAX that XLA is known to compile wrongly on CPUs.

XLA (of JAX 0.10, and in part to 0.12) lets 8-bit integers saturate at the largest
value in some reductions, may overwrite elements that it has yet to read, aborts on some
empty parts of joined arrays, and takes wrapped integers for positive ones;
docs/differences.md describes all four. The programs that graphc prints work around
these mistakes, so the program of the graph replaces such a trace.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from operator import or_

import jax
import jax.core
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import (
    concatenate_p,
    copy_p,
    dynamic_update_slice_p,
    iota_p,
    reshape_p,
    squeeze_p,
)

from graphc.importers.jax.read.jaxprs import equations
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.nodes import Node
from graphc.ir.primitives import OP
from graphc.ops.common.narrow_integers import (
    is_converted_apart,
    is_narrow,
    may_overflow,
)
from graphc.ops.indexing.overlaps import reads_other_places

_LARGE = 2048  # XLA computes nothing for these
_PARTS = {"slice", "dynamic_slice", "split"}  # names of operations
_RELAID = copy_p, reshape_p, squeeze_p  # XLA may turn these into no operation


def may_be_miscompiled(jaxpr: Jaxpr) -> bool:
    """Whether XLA might miscompile some equations; the graph then tells if it does."""
    if jax.default_backend() != "cpu":
        return False
    eqns = [*equations(jaxpr)]
    if any(_is_narrow(v.aval) for eqn in eqns for v in eqn.outvars):
        return True
    writes = any(map(_is_write, eqns))
    return writes and _may_read_what_is_written(eqns, {*jaxpr.invars, *jaxpr.constvars})


def may_abort(jaxpr: Jaxpr) -> bool:
    """Whether XLA might abort, as it does on no elements next to an empty joined array.

    An example is `concatenate([x, y])[len(x):len(x)]`, if `y` is empty.
    """
    if jax.default_backend() != "cpu":
        return False
    eqns = [*equations(jaxpr)]
    joins = [eqn for eqn in eqns if eqn.primitive is concatenate_p]
    if not any(map(_is_empty, (x for eqn in joins for x in eqn.invars))):
        return False
    parts = [eqn for eqn in eqns if eqn.primitive.name in _PARTS]
    return any(map(_is_empty, (v for eqn in parts for v in eqn.outvars)))


def wraps_around(jaxpr: Jaxpr) -> bool:
    """Whether a range ends beyond its dtype, where XLA takes all for positive."""
    ranges = [eqn.params for eqn in equations(jaxpr) if eqn.primitive is iota_p]
    return any(
        p["dtype"].kind == "i"
        and p["shape"][p["dimension"]] - 1 > np.iinfo(p["dtype"]).max
        for p in ranges
    )


def _is_empty(x: Var | Literal) -> bool:
    """Whether an array has no elements."""
    return isinstance(x.aval, jax.core.ShapedArray) and 0 in x.aval.shape


def is_worked_around(nodes: Iterable[Node]) -> bool:
    """Whether the text of a graph works around a mistake of XLA in its trace."""
    all_nodes = [*with_inner_nodes(nodes)]
    computes_narrow = may_overflow(all_nodes)
    return any(_is_printed_differently(node, computes_narrow) for node in all_nodes)


def _is_printed_differently(node: Node, computes_narrow: bool) -> bool:
    """Whether graphc prints a node differently from how JAX would trace it."""
    op = node.primitive
    if op is OP.convert:
        return is_converted_apart(node)
    if op in (OP.max, OP.max_from, OP.min, OP.min_from):
        return computes_narrow and is_narrow(node.inputs[0])
    return op in (OP.slice_update, OP.scatter) and reads_other_places(node)


def _is_narrow(aval: object) -> bool:
    """Whether a type of JAX is a large array of 8-bit integers."""
    if not isinstance(aval, jax.core.ShapedArray):
        return False
    return aval.dtype in ("int8", "uint8") and math.prod(aval.shape) >= _LARGE


def _may_read_what_is_written(
    eqns: Sequence[JaxprEqn], arguments: AbstractSet[Var]
) -> bool:
    """Whether an array may be updated with elements that are computed from itself.

    Arrays that are passed to an inner jaxpr may all be the same array.
    """
    same = _same_arrays(eqns)
    written = _written_arrays(eqns, same)
    bits = {x: 1 << i for i, x in enumerate(dict.fromkeys(written.values()))}
    outer = same.keys() | arguments  # any others are inputs of inner jaxprs
    inner_bits = sum(bit for x, bit in bits.items() if x not in outer)
    read: dict[Var, int] = {}  # the bits of the arrays that each is computed from

    def all_read(atoms: Iterable[Var | Literal]) -> int:
        arrays = [same.get(x, x) for x in atoms if isinstance(x, Var)]
        known_bits = [read.get(x, bits.get(x, 0)) for x in arrays]
        return reduce(or_, known_bits, 0 if outer.issuperset(arrays) else inner_bits)

    for i, eqn in enumerate(eqns):
        if i in written and all_read([_written_array(eqn)]) & bits[written[i]]:
            return True
        sources = all_read(eqn.invars)
        read |= {v: sources | bits.get(v, 0) for v in eqn.outvars}
    return False


def _same_arrays(eqns: Sequence[JaxprEqn]) -> dict[Var, Var]:
    """Map each array to the first that may equal it, which XLA then computes only once.

    Params are not compared, since that takes long: arrays may be taken for equal that
    are not.
    """
    same: dict[Var, Var] = {}
    computed: dict[tuple[object, ...], Var] = {}
    for eqn in eqns:
        inputs = [same.get(x, x) if isinstance(x, Var) else str(x) for x in eqn.invars]
        for i, v in enumerate(eqn.outvars):
            same[v] = computed.setdefault((eqn.primitive, i, v.aval, *inputs), v)
    return same


def _written_arrays(
    eqns: Sequence[JaxprEqn], same: Mapping[Var, Var]
) -> dict[int, Var]:
    """The arrays that are written in part, by the position of the equation.

    An array that merely reshapes or copies another counts as that other one.
    """
    makers = {v: eqn for eqn in eqns for v in eqn.outvars}
    written: dict[int, Var] = {}
    for i, eqn in enumerate(eqns):
        x = eqn.invars[0] if _is_write(eqn) else None
        while isinstance(x, Var) and x in makers and makers[x].primitive in _RELAID:
            x = makers[x].invars[0]
        if isinstance(x, Var):
            written[i] = same.get(x, x)
    return written


def _is_write(eqn: JaxprEqn) -> bool:
    """Whether an equation writes one array into a part of another."""
    op = eqn.primitive
    return op is dynamic_update_slice_p or op.name.startswith("scatter")


def _written_array(write: JaxprEqn) -> Var | Literal:
    """The array that is written into a part of another."""
    return write.invars[1 if write.primitive is dynamic_update_slice_p else 2]
