"""Changes of shape meet their inverse, and a size is asked for no more.

`x.reshape(k, -1)` needs to know k before it can be compiled, and what is behind it is
compiled for each k. Where only functions of elements follow, and then a reshape to what
was there before, or a reduction over all that was reshaped, the same is had without k:

    tanh(x.reshape(k, -1)).reshape(-1)    is    tanh(x)
    sum(exp(x.reshape(k, -1)))            is    sum(exp(x))

A reshape moves towards the inputs only for that. Anywhere else it would pay for
nothing: XLA fuses it wherever it stands, and what it moves in front of would be
compiled anew for each size. A broadcast moves the other way, behind the functions of elements,
which are then computed once and not once for each copy; so does an index along axes
that have copies only.

A size that is asked for no more was tested by the way: k must not be negative and must
divide the size of x. That test stays. Where the program computes k, or it is an
argument, the test is made on the host.
"""

from collections import Counter

from graphc.ir.build import size_value
from graphc.ir.dims import Dim, Size
from graphc.ir.graph import Guard, Node, Value, origins
from graphc.ir.namespace import F
from graphc.ir.op import PRIMITIVES
from graphc.ir.types import product, same_shape, same_size
from graphc.ir.walk import operands
from graphc.rewriting.pattern import Uses, once, p, v
from graphc.rewriting.rule import Rule, Rules, rewrite
from graphc.rewriting.sizes import Axes, at_most, guarded, is_one

Sizes = tuple[Size, ...]
ASSERT = PRIMITIVES["assert"]
EXACT = ("max", "min", "any", "all", "max_from", "min_from")
ROUNDING = ("sum", "prod")
SHAPING = ("reshape", "squeeze", "expand_dims")
MOST_OPS = 40  # that a change of shape moves through


def values_in(sizes: Sizes) -> set[Value]:
    """The integers of the program that sizes are computed from."""
    return {x for n in sizes for x in origins(n)}


def tested(value: Value, nodes: list[Node]) -> Value:
    """`value`, where the sizes fit as nodes that it stands for needed them to."""
    for node in dict.fromkeys(nodes):
        if not any(values_in((g.left, g.right)) for g in node.guards):
            value = guarded(value, node)
            continue
        for guard in (*_divisor(node), *node.guards):
            left, right = (F.subtract(size_value(n), 0) for n in _sides(guard))
            test = F.equal if guard.relation == "==" else F.less_equal
            condition = test(left, right)
            value = ASSERT(value, condition, message=_message(node, guard))
    return value


def _sides(guard: Guard) -> Sizes:
    return guard.left, guard.right


def _message(node: Node, guard: Guard) -> str:
    relation = f"{guard.left} {guard.relation} {guard.right}"
    return f"{node.primitive.name}: {guard.reason}: needs {relation}"


def _divisor(node: Node) -> list[Guard]:
    """That what -1 stands for in a reshape is no division by zero."""
    shape = node.params.get("shape", ())
    total = node.inputs[0].type.size
    for i, n in enumerate(shape):
        rest = product(shape[:i] + shape[i + 1 :])
        if isinstance(n, Dim) and isinstance(rest, Dim) and n is total // rest:
            return [Guard("<=", 1, rest, "a size is divided by zero")]
    return []


class Move:
    """Axes of a value get other sizes, all the way up to where they had these."""

    def __init__(self, root: Value, uses: Uses, through: tuple[str, ...]) -> None:
        self._root = root  # which has been used by what is replaced
        self._uses = uses
        self._through = through  # reductions of other axes
        self._made: dict[Value, tuple[int, int, Value | None]] = {}
        self._inside: dict[Node, None] = {}
        self.met: list[Node] = []  # changes of shape that go
        self.same = True  # whether all of them meet their inverse

    def alone(self) -> bool:
        """Whether nothing else uses what it moves through, which it would make anew."""
        within = Counter(x for node in self._inside for x in operands(node))
        within[self._root] += 1
        return all(
            self._uses(x) <= within[x] for node in self._inside for x in node.outputs
        )

    def to(self, x: Value, lo: int, hi: int, sizes: Sizes) -> Value | None:
        """`x` with other sizes for the axes from `lo` to `hi`; None where it stops."""
        if x not in self._made:
            self._made[x] = lo, hi, self._moved(x, lo, hi, sizes)
        before = self._made[x]
        return before[2] if before[:2] == (lo, hi) else None

    def _moved(self, x: Value, lo: int, hi: int, sizes: Sizes) -> Value | None:
        node, name = x.node, x.node.primitive.name
        shape = x.type.shape[:lo] + sizes + x.type.shape[hi:]
        if name in SHAPING:
            return self._merged(node, shape)
        if name == "full":
            return F.full(shape, node.inputs[0])
        if len(self._inside) > MOST_OPS or len(node.outputs) > 1:
            return None
        self._inside[node] = None
        if node.primitive.elementwise:
            return self._elementwise(x, lo, hi, sizes)
        if name in self._through:
            return self._reduction(x, lo, hi, sizes)
        return None

    def _merged(self, node: Node, shape: Sizes) -> Value | None:
        (x,) = node.inputs
        known = values_in(x.type.shape) | values_in(node.outputs[0].type.shape)
        if not values_in(shape) <= known:
            return None
        self.met.append(node)
        if _fits(x.type.shape, shape, node.outputs[0].type.size):
            return x
        self.same = False
        return F.reshape(x, shape)

    def _elementwise(self, y: Value, lo: int, hi: int, sizes: Sizes) -> Value | None:
        inputs = []
        for x in y.node.inputs:
            made = self._operand(x, y, (lo, hi), sizes)
            if made is None:
                return None
            inputs.append(made)
        found: Value = y.node.primitive(*inputs, **y.node.params)
        return found

    def _operand(
        self, x: Value, y: Value, span: tuple[int, int], sizes: Sizes
    ) -> Value | None:
        """An operand of an elementwise result, to which it is stretched."""
        missing = y.type.rank - x.type.rank
        lo, hi = (a - missing for a in span)
        if hi <= 0:
            return x
        own = x.type.shape[max(lo, 0) : hi]
        if lo >= 0 and same_shape(own, y.type.shape[slice(*span)]):
            return self.to(x, lo, hi, sizes)
        if not all(map(is_one, own)):
            return None
        ones = (1,) * len(sizes) if lo >= 0 else ()
        return F.reshape(x, x.type.shape[: max(lo, 0)] + ones + x.type.shape[hi:])

    def _reduction(self, y: Value, lo: int, hi: int, sizes: Sizes) -> Value | None:
        x, params = y.node.inputs[0], y.node.params
        axes, kept = params["axes"], params["keepdims"]
        places = [a for a in range(x.type.rank) if kept or a not in axes]
        span = places[lo:hi]
        if not span or span != list(range(span[0], span[-1] + 1)):
            return None
        if set(span) & set(axes):
            return None
        made = self.to(x, span[0], span[-1] + 1, sizes)
        if made is None:
            return None
        more = len(sizes) - len(span)
        own = tuple(a + more if a > span[0] else a for a in axes)
        found: Value = y.node.primitive(
            made, *y.node.inputs[1:], axes=own, keepdims=kept
        )
        return found


def _fits(own: Sizes, shape: Sizes, size: Size) -> bool:
    """Whether a shape is that of a value which is known to have `size` elements.

    One axis may be written otherwise, as -1 in a reshape is.
    """
    if len(own) != len(shape):
        return False
    others = [n for n, m in zip(own, shape, strict=True) if same_size(n, m)]
    if len(others) == len(own):
        return True
    nonzero = at_most(1, product(others))
    return nonzero and len(others) == len(own) - 1 and same_size(product(shape), size)


def _changed(before: Sizes, after: Sizes) -> tuple[int, int, int]:
    """The axes (from, to) that differ before, and to which one they do after."""
    most = min(len(before), len(after))
    lo = 0
    while lo < most and same_size(before[lo], after[lo]):
        lo += 1
    tail = 0
    while tail < most - lo and same_size(before[-1 - tail], after[-1 - tail]):
        tail += 1
    return lo, len(before) - tail, len(after) - tail


def _reshape(x: Value, y: Value, uses: Uses, through: tuple[str, ...]) -> Value | None:
    """`y`, which changes the shape of `x`, by what has its shape already."""
    lo, hi, end = _changed(x.type.shape, y.type.shape)
    move = Move(x, uses, through)
    made = move.to(x, lo, hi, y.type.shape[lo:end])
    if made is None or not move.met or not move.alone():
        return None
    nodes = [y.node, *move.met]
    if not move.same and any(node.primitive.name != "reshape" for node in nodes):
        return None
    return tested(made, nodes)


def _of_elementwise(op: str) -> Rule:
    @rewrite(
        v.y(getattr(p, op)(once(v.x))),
        exact=True,
        checks=True,
        name=f"{op}_of_reshaped",
    )
    def rule(x: Value, y: Value, uses: Uses) -> Value | None:
        """A change of shape goes where one before it does the inverse."""
        return _reshape(x, y, uses, EXACT)

    return rule


@rewrite(v.y(p.reshape(once(v.x))), exact=False, checks=True)
def reshape_of_sums(x: Value, y: Value, uses: Uses) -> Value | None:
    """A reshape behind sums over other axes goes where one before them undoes it."""
    return _reshape(x, y, uses, EXACT + ROUNDING)


def _source(x: Value) -> Node | None:
    """The first reshape behind functions of elements."""
    shape, stack, seen = x.type.shape, [x], {x}
    while stack and len(seen) <= MOST_OPS:
        node = stack.pop().node
        if node.primitive.name == "reshape":
            return node
        for operand in node.inputs if node.primitive.elementwise else ():
            if operand not in seen and same_shape(operand.type.shape, shape):
                seen.add(operand)
                stack.append(operand)
    return None


def _of_reduction(op: str) -> Rule:
    inputs = (v.start,) if op.endswith("_from") else ()

    @rewrite(
        v.y(getattr(p, op)(once(v.x), *inputs, axes=v.axes, keepdims=v.keepdims)),
        exact=op in EXACT,
        checks=True,
        name=f"{op}_of_all_reshaped",
    )
    def rule(
        x: Value, y: Value, axes: Axes, keepdims: bool, uses: Uses
    ) -> Value | None:
        """A reduction over all axes that a reshape made takes those that it was of."""
        node = _source(x)
        if node is None:
            return None
        before = node.inputs[0].type.shape
        lo, hi, end = _changed(x.type.shape, before)
        move = Move(x, uses, EXACT)
        if not set(range(lo, hi)) <= set(axes) or end == lo:
            return None
        made = move.to(x, lo, hi, before[lo:end])
        if made is None or not move.alone():
            return None
        more = end - hi
        own = (*(a for a in axes if a < lo), *range(lo, end))
        own += tuple(a + more for a in axes if a >= hi)
        found = y.node.primitive(made, *y.node.inputs[1:], axes=own, keepdims=False)
        found = F.expand_dims(found, axes) if keepdims else found
        return tested(found, move.met)

    return rule


LIFTING = Rules(
    (
        *map(_of_elementwise, SHAPING),
        reshape_of_sums,
        *map(_of_reduction, ROUNDING + EXACT),
    )
)
