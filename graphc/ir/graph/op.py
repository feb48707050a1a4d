"""Primitives: everything known about an op, declared in one place."""

import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from graphc.errors import ErrorKind, GraphError, graph_error
from graphc.ir.graph.following import follow_sizes
from graphc.ir.graph.interning import intern_node
from graphc.ir.graph.nodes import Guard, Node, Params, Value
from graphc.ir.namespace import user_op
from graphc.ir.params.kinds import KINDS, Param, ParamKind, ParamKinds
from graphc.ir.primitives import REGISTRY
from graphc.ir.rules import RuleTable
from graphc.ir.sizes.dims import Size, equal, less_equal, may_be_one
from graphc.ir.types import TensorType

Array = Value  # in a type rule: an input needed at run time only
TypeRule = Callable[..., TensorType | tuple[TensorType, ...]]
NamedRange = tuple[str, int | None, Size | None]


class Printing(NamedTuple):
    """The parts that an emission rule uses to print one node as one line of source."""

    node: Node
    xp: str  # "np" or "jnp"
    inputs: tuple[str, ...]  # an expression per input
    code: Callable[[Any], str]  # a param (size, shape, dtype, text ...) as source
    helper: Callable[[Callable[..., Any]], str]  # print this function too: its name
    inner: Callable[..., str]  # print a graph as a function, maybe jitted: its name
    foreign: Callable[[str, Callable[..., Any]], str]  # names a function without text
    in_body: bool = False  # JAX traces a body even where it is never run
    tells_misfits: bool = False  # a branch may report that its sizes do not fit
    on_mesh: str = ""  # the name of the function that makes shardings, on a mesh
    lays_by_hand: bool = False  # the user says where some arrays lie on the mesh
    is_lowered_later: bool = False  # a function around lowers it, perhaps with 32 bits
    is_shift: bool = False  # of exponentials, whose sum is NaN if an element is
    wraps: bool = True  # arithmetic of 8 bits may stand beside it

    def call(self, function: Callable[..., object], *arguments: object) -> str:
        """Print `function` into the program, and return a call of it."""
        return f"{self.helper(function)}({', '.join(map(str, arguments))})"


Emit = Callable[[Printing], str]
Cotangents = tuple[Value | None, ...]
Vjp = Callable[..., Cotangents]
Batch = Callable[..., "Value | tuple[Value, ...] | Shared"]
PaddingFunction = Callable[..., Any]
Views = Callable[[Node], Iterable[tuple[Value, Value]]]
NodesBeside = Callable[[Node], Iterable[Node]]
BodyCalls = Callable[[Node], Iterable[Any]]
Rounding = Literal["none", "once", "many", "stored"]
BACKENDS = ("numpy", "jax")
EMISSION: dict[str, RuleTable[Emit]] = {
    b: RuleTable(f"emission, {b}") for b in BACKENDS
}
GRADIENTS: RuleTable[Vjp] = RuleTable("gradients")
BATCHING: RuleTable[Batch] = RuleTable("batching")
PADDING: RuleTable[PaddingFunction] = RuleTable("padding")
VjpRule = TypeVar("VjpRule", bound=Vjp)
BatchRule = TypeVar("BatchRule", bound=Batch)
PaddingRule = TypeVar("PaddingRule", bound=PaddingFunction)


@dataclass(frozen=True)
class Shared:
    """The result of a batching rule that is the same for all examples."""

    value: Value


@dataclass(frozen=True, eq=False)
class Opaque:
    """A param that is not data: texts show its name and cannot be read back."""

    name: str
    content: Any


KINDS[Opaque] = ParamKind("opaque", lambda x: type(x) is Opaque)


def nothing(node: Node) -> tuple[()]:
    """The default of `beside`, `views` and `body_calls`: the node has none of them."""
    return ()


def views_of_inputs(node: Node) -> Iterable[tuple[Value, Value]]:
    """The `views` of an op where output i may be input i itself or a view of it."""
    return zip(node.outputs, node.inputs, strict=False)


def vjp_by_slope(derivative: Callable[[Value], Value]) -> Vjp:
    """The rule of a function of one number: the cotangent times its derivative."""
    return lambda g, x: (g * derivative(x),)


@dataclass(eq=False)
class Primitive:
    """A primitive op and its rules; calling it builds a node.

    `infer` is the type rule: inputs are positional, normalised params keyword-only. The
    annotations of params are their kinds: see `graphc.ir.params.kinds`. The rules for
    gradients, batching, padding and the text of each backend are in tables, which the
    decorators of the primitive fill; the conditions that `check=True` must find true
    are in a table too (see `ops.common.conditions`). `sizes`, where given, computes
    integers and bools as sizes (see `ops.common.known_integers`); where the op `wraps`,
    these may leave the range of its dtype, and with `long_sizes` they are followed
    whatever their length. `inline` ops are printed inside the expressions that use
    them. `literals` says where a scalar constant may be printed as a bare Python
    number: beside another input of its dtype, or always. `imports` names a module that
    the printed text needs, by backend.

    For gradients and batching, each primitive has a rule or a reason for having none.
    `elementwise`: inputs broadcast, and an element of the result depends on one of
    each. `linear`: the derivative holds no element of an input, so none can spoil it.
    `no_gradient_for`: the names of inputs for which the rule has no gradient, and why.
    `chooses`: elements that the first input does not choose have no effect. `picks`:
    the gradient rule compares elements of the inputs, or finds them again. `jumps`: a
    change in the last bit of a float may change the result by much. `rounding`: how
    often elements are rounded on the way; "none" where they are exact, "stored" where
    XLA keeps the result and computes it once (see `recomputed`). `selective`: the
    gradient rule gets `needed`, which says whose gradients are needed. `size_remedy`: a
    hint for where the result is needed as a size and cannot be one. `driven`: the
    driver runs the op, in pieces that are each compiled. `checks`: the driver checks
    its condition, so no body can hold the op. `for_gradients`: the outputs are the
    first inputs, once all gradients are taken. `layout`: the elements are in another
    order, which products accept as it is. `beside`: nodes that a body also holds,
    although they are the same in each step, since the rules of the op look at them.

    `views`: pairs of values of which, in NumPy programs, the first may be a view of the
    second, also for values in bodies; other outputs are arrays of their own. Where the
    op `stretches`, several elements of an output may be one in memory. `body_calls`:
    the bodies of a node, each with the types and sizes that the node gives it: see
    `graphc.ir.graph.bodies.BodyCall`.
    """

    name: str
    infer: TypeRule
    sizes: Callable[..., Any] | None = None
    wraps: bool = False
    long_sizes: bool = False
    range: Callable[[Node], NamedRange] | None = None
    inline: bool = False
    literals: Literal["never", "beside", "always"] = "never"
    several: bool = False  # the printed expression is a tuple
    interned: bool = True
    passes_on: bool = False  # output i is input i: programs do without the node
    demanding: bool = True  # whether dims in the params are needed on the host
    on_host: bool = True  # whether the NumPy form may stand in for the JAX form
    imports: dict[str, str] = field(default_factory=dict)  # by backend
    arguments: tuple[str, ...] = ()
    elementwise: bool = False
    linear: bool = False
    picks: bool = False
    jumps: bool = False
    rounding: Rounding = "many"
    selective: bool = False
    chooses: bool = False
    no_gradient_for: dict[str, str] = field(default_factory=dict)  # argument: why
    size_remedy: str = ""
    driven: bool = False
    checks: bool = False
    for_gradients: bool = False
    layout: bool = False
    beside: NodesBeside = nothing
    views: Views = nothing
    stretches: bool = False
    body_calls: BodyCalls = nothing

    def __post_init__(self) -> None:
        signature = inspect.signature(self.infer).parameters.values()
        self.arguments = tuple(
            ("*" if p.kind is p.VAR_POSITIONAL else "") + p.name
            for p in signature
            if p.kind is not p.KEYWORD_ONLY
        )
        self.kinds: ParamKinds = ParamKinds(self.name, self.infer)
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is not the name of a primitive")
        if self.name in PRIMITIVES:
            raise ValueError(f"primitive {self.name} is defined twice")
        PRIMITIVES[self.name] = self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *inputs: Value, **params: Param) -> Any:
        """Build a node; returns its one value, or a tuple of several.

        Raises GraphError, naming the op and types, where the inputs do not fit.
        """
        outputs = self.bind(inputs, params).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def bind(self, inputs: tuple[Value, ...], params: dict[str, Param]) -> Node:
        """Return the interned node for these inputs and normalised params.

        Raises GraphError where a param is not of its kind.
        """
        params = self.kinds.checked(params, inputs)
        types, guards = infer_types(self, inputs, params)
        if not self.interned:
            return Node(self, inputs, params, types, guards)
        followed_sizes = follow_sizes(self, inputs, params, types[0])
        guards += followed_sizes.guards
        node = intern_node(self, inputs, params, types, guards)
        if followed_sizes.sizes is not None:
            node.outputs[0].sizes = followed_sizes.sizes
        return node

    def emit(
        self,
        both: str | Emit | None = None,
        *,
        numpy: str | Emit | None = None,
        jax: str | Emit | None = None,
    ) -> "Primitive":
        """Declare how a node prints; a text may use {xp}, inputs and params."""
        for backend, rule in (("numpy", numpy or both), ("jax", jax or both)):
            if rule is not None:
                if isinstance(rule, str):
                    rule = _template_printer(self, rule)
                EMISSION[backend].define(self, rule)
        return self

    def refuse(self, backend: str, reason: str) -> "Primitive":
        """Declare that a backend cannot run this op, and why."""
        EMISSION[backend].refuse(self, reason)
        return self

    def vjp(self, rule: VjpRule) -> VjpRule:
        """Decorator: the rule from cotangents of the outputs to those of the inputs.

        `rule(g, *inputs, **params)` returns one per input: a value of its type (of the
        output's type where the op is elementwise), or None for zero. `g` is the
        cotangent of the output, or for several outputs a tuple, with None where it is
        zero. Complex numbers follow JAX: rules are the transpose of the derivative,
        unconjugated.
        """
        GRADIENTS.define(self, rule)
        return rule

    def zero_gradient(self) -> "Primitive":
        """Declare that the results are constant almost everywhere."""
        GRADIENTS.define(self, lambda g, *inputs, **params: (None,) * len(inputs))
        return self

    def no_gradient(self, reason: str) -> "Primitive":
        """Declare that there is no gradient, and why."""
        GRADIENTS.refuse(self, reason)
        return self

    def batch(self, rule: BatchRule) -> BatchRule:
        """Decorator: the rule that applies the op along a new first axis of its inputs.

        `rule(n, batched, *inputs, **params)` returns the outputs, all with a new first
        axis of size `n`, or `Shared`, for one output without it. `batched` says which
        inputs have it.
        """
        BATCHING.define(self, rule)
        return rule

    def no_batch(self, reason: str) -> "Primitive":
        """Declare that the op cannot be batched, and why."""
        BATCHING.refuse(self, reason)
        return self

    def padding(self, rule: PaddingRule) -> PaddingRule:
        """Decorator: the rule for inputs with padding at the end of some axes.

        `rule(pad, *inputs, **params)` returns the outputs at their capacities, or None
        where it has no answer; see `graphc.ops.common.padding`. Sizes in `params` are
        capacities already; those in `pad.node.params` are true sizes.
        """
        PADDING.define(self, rule)
        return rule

    def no_padding(self, reason: str) -> "Primitive":
        """Declare that the op needs true sizes, and why."""
        PADDING.refuse(self, reason)
        return self

    @property
    def may_have_bodies(self) -> bool:
        """Whether nodes of this primitive may have bodies."""
        return self.body_calls is not nothing

    def range_of(self, value: Value) -> NamedRange:
        """The name and bounds of `value` when it is used as a size."""
        if self.range is not None:
            return self.range(value.node)
        return value.node.place.assigned or self.name, None, None


PRIMITIVES: dict[str, Primitive] = REGISTRY


def op(
    *, inline: bool = False, interned: bool = True
) -> Callable[[TypeRule], Primitive]:
    """Decorator: make a primitive of its type rule."""

    def declare(infer: TypeRule) -> Primitive:
        name = infer.__name__.strip("_")
        primitive = Primitive(name, infer, inline=inline, interned=interned)
        primitive.__doc__ = infer.__doc__
        return primitive

    return declare


def _template_printer(primitive: Primitive, text: str) -> Emit:
    arguments = primitive.arguments
    plain = not any(name.startswith("*") for name in arguments) and "{{" not in text
    of_inputs: dict[str, Callable[..., str]] = {}  # for texts without params

    def printed(p: Printing) -> str:
        params = p.node.params
        if plain and not params:  # most nodes of most programs
            if p.xp not in of_inputs:
                places = [f"{{{i}}}" for i in range(len(arguments))]
                named = dict(zip(arguments, places, strict=True))
                of_inputs[p.xp] = text.format(*places, xp=p.xp, **named).format
            return of_inputs[p.xp](*p.inputs)
        fields = {name: p.code(value) for name, value in params.items()}
        fields |= named_inputs(primitive, p.inputs)
        return text.format(*p.inputs, xp=p.xp, **fields)

    return printed


def named_inputs(primitive: Primitive, inputs: tuple[str, ...]) -> dict[str, str]:
    """The printed inputs by argument name; a starred argument joins several."""
    named: dict[str, str] = {}
    for i, name in enumerate(primitive.arguments):
        if name.startswith("*"):
            named[name[1:]] = ", ".join(inputs[i:])
        else:
            named[name] = inputs[i]
    return named


class _Inference(threading.local):
    """The node whose types are inferred, to which errors and guards belong."""

    call: tuple[str, tuple[Value, ...], list[Guard] | None] = ("", (), None)


_CURRENT = _Inference()


def infer_types(
    primitive: Primitive, inputs: tuple[Value, ...], params: Params
) -> tuple[tuple[TensorType, ...], tuple[Guard, ...]]:
    """Run the type rule: returns the types of the outputs, and guards."""
    outer = _CURRENT.call
    guards: list[Guard] = []
    _CURRENT.call = primitive.name, inputs, guards
    try:
        types = primitive.infer(*inputs, **params)
    finally:
        _CURRENT.call = outer
    unique = tuple(dict.fromkeys(guards)) if guards else ()
    outputs = types if isinstance(types, tuple) else (types,)
    for type in outputs:
        first = inputs[0] if inputs else None
        if first is None or type is not first.type or not first.node.inputs:
            _require_countable(primitive, type)  # other types have been checked
    return outputs, unique


def _require_countable(primitive: Primitive, type: TensorType) -> None:
    """Refuse arrays whose bytes int64 cannot count: XLA would end the process."""
    count = type.dtype.itemsize
    for n in type.shape:
        count *= n if isinstance(n, int) and n else 1
    if count >= 2**63:
        problem = "an array has more bytes than int64 holds"
        raise graph_error(problem, op=primitive.name, got=str(type))


def type_error(problem: str, *, hint: str = "") -> GraphError:
    """The error of a type rule, with the op and the types of its inputs.

    The op is the function that the user called, where it is a public one.
    """
    op, inputs, _ = _CURRENT.call
    got = ", ".join(str(v.type) for v in inputs)
    return graph_error(problem, op=user_op(op), got=got, hint=hint)


def _record_guard(
    relation: Literal["==", "<="],
    a: Size,
    b: Size,
    reason: str,
    kind: ErrorKind,
    memory: bool = False,
) -> None:
    guards = _CURRENT.call[2]
    if guards is not None:
        guards.append(Guard(relation, a, b, reason, kind, memory))


def require_equal(
    a: Size, b: Size, reason: str, hint: str = "", kind: ErrorKind = "shape"
) -> Size:
    """Require that `a` and `b` are equal: proved, refuted (raises) or checked by calls.

    Returns the simpler of the two. `kind` is the kind of the error that a call raises.
    """
    if a is b:
        return a
    answer = equal(a, b)
    if answer is False:
        raise type_error(f"{reason}: {a} and {b} differ", hint=hint)
    if answer is None:
        _record_guard("==", a, b, reason, kind)
    return a if _simplicity_key(a) <= _simplicity_key(b) else b


def _simplicity_key(size: Size) -> tuple[bool, int, int]:
    """The sort key of a size: numbers, then what may be 1, then short formulas."""
    if isinstance(size, int):
        return False, 0, 0
    return not may_be_one(size), size.weight, len(str(size))


def require_at_most(
    a: Size, b: Size, reason: str, kind: ErrorKind = "shape", memory: bool = False
) -> None:
    """Require that `a <= b`: proved, refuted (raises) or checked by calls."""
    answer = less_equal(a, b)
    if answer is False:
        raise type_error(f"{reason}: {a} is more than {b}")
    if answer is None:
        _record_guard("<=", a, b, reason, kind, memory)


def rebuild(node: Node, inputs: tuple[Value, ...], params: Params) -> Node:
    """Build a node of the same primitive for other inputs and params."""
    return node.primitive.bind(inputs, dict(params))
