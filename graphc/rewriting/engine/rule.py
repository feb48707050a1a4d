"""Rules, and sets of rules that add and subtract."""

import copyreg
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from importlib import import_module
from typing import Any

from graphc.analysis.cost import CPU, DeviceCosts, using_costs
from graphc.errors import SourceLocation, graph_error, shortened, standing_at
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import Replaced
from graphc.ir.namespace import misspelled
from graphc.rewriting.match.pattern import (
    Apply,
    Bindings,
    CountUses,
    Named,
    Once,
    OneOf,
    Pattern,
    Variable,
    matches,
    may_fit,
)
from graphc.rewriting.match.traced_patterns import DTypes, InputShapes, Traced, traced

USES = "uses"  # the parameter name of the function that counts uses
KEPT = "is_kept"  # the parameter name of the function that knows the graph's outputs
IsKept = Callable[[Value], bool]
Replacement = Callable[..., Value | None]
Whole = Callable[[Graph], Replaced | None]


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule that puts another value in place of each value that `pattern` matches.

    `replace` takes the variables of the pattern by name and returns a value of the same
    type, or None where the rule does not apply after all. An `exact` rule keeps values
    bit for bit; any other rule changes them by rounding. A `finite` rule promises
    nothing about infinities and NaN among the inputs.
    """

    name: str
    pattern: Pattern | Traced
    replace: Replacement
    takes: tuple[str, ...]  # the variables that are parameters of `replace`
    exact: bool
    place: SourceLocation
    doc: str
    finite: bool = False
    checks: bool = False  # inserts tests that the host makes
    whole: Whole | None = None  # replaces in a whole graph, instead of by a pattern
    late: bool = False  # for graphs whose capacities are settled
    compiling: bool = False  # only saves compilation; for graphs as they are written
    last: bool = False  # for graphs that nothing else changes any more
    unfused: bool = False  # needless on a CPU, where XLA fuses ops into loops
    tuned: "Callable[[DeviceCosts], Rule] | None" = None  # gives the rule for a device
    fused: "Rule | None" = None  # the variant for a CPU on which XLA fuses ops

    @property
    def op(self) -> str:
        """The primitive at the root of the pattern, or the first of several.

        It is "" for a rule that looks at graphs whatever their ops.
        """
        return self.ops[0] if self.ops else ""

    @cached_property
    def ops(self) -> tuple[str, ...]:
        """The primitives that may be at the root of the pattern."""
        pattern = self.pattern
        while isinstance(pattern, (Named, Once)):
            pattern = pattern.pattern
        assert isinstance(pattern, (Apply, OneOf, Traced))
        return pattern.ops

    def may_fit(self, op: str, inputs: Sequence[str]) -> bool:
        """Whether the rule may replace a value of `op` whose inputs are of `inputs`.

        Both parameters name primitives.
        """
        if isinstance(self.pattern, Traced):
            return self.pattern.may_fit(op, inputs)
        return may_fit(self.pattern, op, inputs)

    def apply(
        self, value: Value, uses: CountUses, is_kept: IsKept = lambda value: False
    ) -> Value | None:
        """Return the replacement of a value, or None where the rule does not apply.

        The replacement stands at the user's line of the value. `is_kept` tells whether
        a value is an output of the graph.
        """
        if isinstance(self.pattern, Traced):  # which builds graphs
            with standing_at(value.node.place.plain):
                all_bindings = self.pattern.matches(value, uses)
                return self._first(all_bindings, value, {USES: uses, KEPT: is_kept})
        bindings = matches(self.pattern, value, uses)
        if not bindings:
            return None
        with standing_at(value.node.place.plain):
            return self._first(bindings, value, {USES: uses, KEPT: is_kept})

    def _first(
        self, all_bindings: Iterable[Bindings], value: Value, of_graph: Bindings
    ) -> Value | None:
        """Return the first replacement that any of the bindings gives, or None."""
        for bindings in all_bindings:
            known = of_graph | bindings
            replacement = self.replace(**{name: known[name] for name in self.takes})
            if replacement is not None and replacement is not value:
                return replacement
        return None

    def __add__(self, other: "Rule | Rules") -> "Rules":
        return Rules((self,)) + other

    def __reduce__(self) -> tuple[object, ...]:
        if LIBRARY.get(self.name) is self:
            return library_rule, (self.name,)
        module = getattr(self.replace, "__module__", "")
        name = getattr(self.replace, "__name__", "")
        if getattr(sys.modules.get(module), name, None) is self:
            return rule_of_module, (module, name)
        return copyreg.__newobj__, (Rule,), self.__dict__  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: object) -> "Rule":
        return self

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


LIBRARY: dict[str, Rule] = {}  # by name, as other processes refer to rules


def library_rule(name: str) -> Rule:
    """Return a rule of the library by name, as pickled rules refer to it."""
    return LIBRARY[name]


def rule_of_module(module: str, name: str) -> Rule:
    """Return a decorated function of a module, as pickled rules refer to it."""
    rule: Rule = getattr(import_module(module), name)
    return rule


def _rules_of(other: object) -> "tuple[Rule, ...]":
    if isinstance(other, Rules):
        return other.rules
    raise graph_error(
        "only rules can be joined to rules",
        op="rewrite",
        got=shortened(repr(other)),
        hint="@graphc.rewrite(...) makes a rule of a function",
    )


class Rules:
    """Rules in the order in which they are tried; `+` and `-` make new sets."""

    def __init__(self, rules: tuple[Rule, ...] = ()) -> None:
        self.rules = rules
        self._candidates: dict[tuple[str, ...], tuple[Rule, ...]] = {}
        self._rules_by_device: dict[DeviceCosts, Rules] = {}
        for name, count in Counter(rule.name for rule in rules).items():
            if count > 1:
                raise graph_error(f"two rules are called {name}", op="rewrite")

    def __reduce__(self) -> tuple[object, ...]:
        return Rules, (self.rules,)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __contains__(self, name: object) -> bool:
        return any(name in (rule, rule.name) for rule in self.rules)

    def __getitem__(self, name: str) -> Rule:
        for rule in self.rules:
            if rule.name == name:
                return rule
        close = misspelled(name, [rule.name for rule in self.rules])
        problem = f"there is no rule {name!r} in the set{close}"
        raise graph_error(problem, op="rewrite")

    def __add__(self, other: "Rule | Rules") -> "Rules":
        more = (other,) if isinstance(other, Rule) else _rules_of(other)
        new = tuple(rule for rule in more if rule not in self.rules)
        return Rules(self.rules + new)

    def __sub__(self, other: "str | Rule | Rules") -> "Rules":
        if isinstance(other, str):
            other = self[other]
        gone = {other} if isinstance(other, Rule) else set(_rules_of(other))
        return Rules(tuple(rule for rule in self.rules if rule not in gone))

    def candidates(self, node: Node) -> tuple[Rule, ...]:
        """Return the rules that may replace a value of a node, judging by primitives.

        The answers are cached: most graphs consist of few kinds of nodes, and few rules
        fit each kind.
        """
        inputs = [value.node.primitive.name for value in node.inputs]
        key = (node.primitive.name, *inputs)
        fitting = self._candidates.get(key)
        if fitting is None:
            at_root = self._by_root.get(key[0], ())
            fitting = tuple([rule for rule in at_root if rule.may_fit(key[0], inputs)])
            self._candidates[key] = fitting
        return fitting

    @cached_property
    def _by_root(self) -> dict[str, list[Rule]]:
        """The rules that replace single values, by the primitive of the value."""
        by_root: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for op in dict.fromkeys(rule.ops if rule.whole is None else ()):
                by_root.setdefault(op, []).append(rule)
        return by_root

    def whole(self, compiling: bool) -> tuple[Rule, ...]:
        """Return the whole-graph rules: those that only save compilation, or others."""
        return self._whole_graph_rules[compiling]

    @cached_property
    def _whole_graph_rules(self) -> dict[bool, tuple[Rule, ...]]:
        whole = [rule for rule in self.rules if rule.whole is not None]
        return {c: tuple([r for r in whole if r.compiling is c]) for c in (False, True)}

    @cached_property
    def interpreted(self) -> "Rules":
        """The rules that do more than save compilation."""
        return self._select(lambda rule: not rule.compiling)

    @cached_property
    def unchecked(self) -> "Rules":
        """The rules that insert no tests for the host."""
        return self._select(lambda rule: not rule.checks)

    @cached_property
    def early(self) -> "Rules":
        """The rules that do not need to know the capacities of sizes."""
        return self._select(lambda rule: not rule.late and not rule.last)

    @cached_property
    def late(self) -> "Rules":
        """The rules that need to know the capacities of sizes."""
        return self._select(lambda rule: rule.late)

    @cached_property
    def last(self) -> "Rules":
        """The rules for graphs that nothing else changes any more."""
        return self._select(lambda rule: rule.last)

    @cached_property
    def functions(self) -> "Rules":
        """The rules whose pattern is a function."""
        return self._select(lambda rule: isinstance(rule.pattern, Traced))

    @cached_property
    def fused(self) -> "Rules":
        """The rules for graphs that XLA compiles for a CPU."""
        return self.compiled._select(lambda rule: not rule.unfused)

    @cached_property
    def compiled(self) -> "Rules":
        """The rules for graphs that XLA compiles, fusing reductions with operands."""
        rules = tuple([rule.fused or rule for rule in self])
        return self if rules == self.rules else Rules(rules)

    def _select(self, is_wanted: Callable[[Rule], bool]) -> "Rules":
        some = tuple(filter(is_wanted, self.rules))
        return self if len(some) == len(self.rules) else Rules(some)

    def on(self, costs: DeviceCosts) -> "Rules":
        """Return the rules with the thresholds of a device fixed in them."""
        if costs not in self._rules_by_device:
            rules = tuple([_rule_for_device(rule, costs) for rule in self])
            self._rules_by_device[costs] = Rules(rules)
        return self._rules_by_device[costs]

    def exact(self) -> "Rules":
        """The rules that change no value, not even by rounding."""
        return self._select(lambda rule: rule.exact)

    def __repr__(self) -> str:
        return f"<{len(self.rules)} rules>"


def rewrite(
    pattern: Pattern | Callable[..., object],
    *,
    exact: bool,
    name: str = "",
    finite: bool = False,
    shapes: InputShapes | None = None,
    dtypes: DTypes | None = None,
    once: bool = False,
    checks: bool = False,
    unfused: bool = False,
) -> Callable[[Replacement], Rule]:
    """Decorator: make a rule that replaces `pattern` by what the function returns.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> @graphc.rewrite(lambda a: gt.log(gt.exp(a)), exact=False)
    ... def log_of_exp(a):
    ...     return a if a.dtype.kind == "f" else None
    >>> x = gt.vector("x")
    >>> rules = graphc.rewrites.default + log_of_exp
    >>> f = graphc.function([x], gt.log(gt.exp(x)), rewrites=rules)
    >>> print(f(np.array([1000], "float32")))
    [1000.]

    The function's parameters are the variables of the pattern. An `exact` rule keeps
    values bit for bit; any other rule changes them by rounding. With `finite`, this is
    claimed for finite inputs only: the places of infinities and NaN may change. With
    `checks`, the rule inserts tests that the host makes; programs that users jit
    themselves do without it. With `unfused`, the rule saves what XLA saves by itself on
    a CPU, so programs for CPUs do without it. A function with a parameter `uses` is
    given a function that counts the uses of a value.

    The pattern may be an ordinary function, as in `@rewrite(lambda a:
    gt.log(gt.sum(gt.exp(a))), exact=False)`. Then its parameters are the variables.
    They may have any type for which the function can be traced, unless `shapes`, as
    `{"a": ("n", 3)}`, or `dtypes`, as `{"a": "bool"}`, restrict it. With `once=True`,
    nothing else may use the values inside the pattern.
    """
    matched: Any = pattern
    is_uncalled = getattr(matched, "__module__", "") == Apply.__module__
    is_uncalled = is_uncalled and inspect.isroutine(matched)
    if is_uncalled or isinstance(matched, str) or not isinstance(exact, bool):
        raise graph_error(
            "a rule needs a pattern, and exact=True or exact=False",
            op="rewrite",
            got=f"{shortened(repr(pattern))}, exact={exact!r}",
            hint="write @graphc.rewrite(p.exp(v.x), exact=False)",
        )
    if inspect.isroutine(matched):
        names = _placeholder_names(matched)
        matched = traced(matched, names, shapes or {}, dtypes or {}, once)
    elif shapes or dtypes or once:
        raise graph_error(
            "shapes, dtypes and once are for patterns that are functions",
            op="rewrite",
            hint="look at types in the replacement, and write once(...) in the pattern",
        )
    declared = _rule_maker(matched, exact, name, finite, checks)
    return lambda function: replace(declared(function), unfused=unfused)


def whole_graph(
    *,
    over: Sequence[str],
    exact: bool,
    name: str = "",
    compiling: bool = False,
    late: bool = False,
    last: bool = False,
    tuned: Callable[[DeviceCosts], Rule] | None = None,
) -> Callable[[Whole], Rule]:
    """Decorator: make a rule that looks at a whole graph with some node of `over`.

    If `over` is empty, the rule looks at every graph. The function returns the graph
    after one or more replacements, and the pairs of old and new values, or None where
    there is nothing to replace. A rule that only saves `compiling` sees the graph as it
    is written, and is not for NumPy. A `late` rule is applied after all others, once
    sizes are padded: no mask rule sees what it makes. The `last` rules are applied
    after the late ones. If thresholds depend on the device, `tuned` returns the rule
    for a device; the rule as it stands is for CPUs.
    """

    def declare(function: Whole) -> Rule:
        return Rule(
            name or function.__name__,
            OneOf(tuple(over), frozenset()),
            _no_replacement,
            (),
            exact,
            *_place_and_doc(function),
            whole=function,
            compiling=compiling,
            late=late,
            last=last,
            tuned=tuned,
        )

    return declare


@lru_cache(maxsize=4096)
def _rule_for_device(rule: Rule, costs: DeviceCosts) -> Rule:
    """Return the rule for a device: the same object, whichever set asks for it."""
    if rule.tuned is not None:
        rule = replace(rule.tuned(costs), tuned=None)
    if costs == CPU:
        return rule
    if rule.whole is None:
        return replace(rule, replace=partial(_replace_on_device, costs, rule.replace))
    fused = None if rule.fused is None else _rule_for_device(rule.fused, costs)
    whole = partial(_apply_on_device, costs, rule.whole)
    return replace(rule, whole=whole, fused=fused)


def _apply_on_device(costs: DeviceCosts, whole: Whole, graph: Graph) -> Replaced | None:
    """Apply a rule to a whole graph, using the costs of a device."""
    with using_costs(costs):
        return whole(graph)


def _replace_on_device(
    costs: DeviceCosts, function: Replacement, /, **bindings: object
) -> Value | None:
    """Return the replacement of a pattern, using the costs of a device."""
    with using_costs(costs):
        return function(**bindings)


def _place_and_doc(function: Callable[..., object]) -> tuple[SourceLocation, str]:
    """Return where a function is defined, and its docstring."""
    code = function.__code__
    place = SourceLocation(code.co_filename, code.co_firstlineno)
    return place, inspect.getdoc(function) or ""


def _no_replacement() -> None:
    """The `replace` of a rule for a whole graph, which no pattern calls."""


def _placeholder_names(function: Callable[..., object]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    if not parameters or any(
        p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters
    ):
        raise graph_error(
            "the pattern must be a function that takes its placeholders by position",
            op="rewrite",
            got=f"{function.__name__}{inspect.signature(function)}",
        )
    return tuple(p.name for p in parameters)


def _rule_maker(
    pattern: Pattern, exact: bool, name: str, finite: bool, checks: bool
) -> Callable[[Replacement], Rule]:
    def declare(replace: Replacement) -> Rule:
        if not callable(replace):
            hint = "write @graphc.rewrite(...) above it"
            got, problem = shortened(repr(replace)), "a replacement must be a function"
            raise graph_error(problem, op="rewrite", got=got, hint=hint)
        called = name or replace.__name__
        takes = tuple(inspect.signature(replace).parameters)
        missing = sorted(set(takes) - _variable_names(pattern) - {USES, KEPT})
        if missing:
            problem = f"the pattern of {called} has no {', '.join(missing)}"
            raise graph_error(problem, op="rewrite")
        claims = exact, *_place_and_doc(replace), finite, checks
        return Rule(called, pattern, replace, takes, *claims)

    return declare


def _variable_names(pattern: object) -> set[str]:
    match pattern:
        case Traced():
            return set(pattern.names)
        case Apply():
            parts = [*pattern.inputs, *pattern.params.values()]
            return set[str]().union(*map(_variable_names, parts))
        case Named(name, inner):
            return {name, *_variable_names(inner)}
        case Once(inner):
            return _variable_names(inner)
        case Variable(name):
            return {name}
        case _:
            return set()
