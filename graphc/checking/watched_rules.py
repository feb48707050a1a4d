"""Rules whose results are watched: they must have the type of the replaced value."""

from dataclasses import fields

from graphc.checking.counterexample import Counterexample, expression
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import equal
from graphc.rewriting.engine.rule import IsKept, Rule
from graphc.rewriting.match.pattern import CountUses


def with_type_check(rule: Rule) -> Rule:
    """The rule, made to raise a Counterexample where its result has another type."""
    return _CheckedRule(**{f.name: getattr(rule, f.name) for f in fields(rule)})


class _CheckedRule(Rule):
    def apply(
        self, value: Value, uses: CountUses, is_kept: IsKept = lambda value: False
    ) -> Value | None:
        """The replacement of a value. Raises Counterexample if its type differs."""
        replacement = super().apply(value, uses, is_kept)
        changed = replacement is not None and _type_difference(value, replacement)
        if replacement is None or not changed:
            return replacement
        raise Counterexample(
            {
                "problem": f"the rule {self.name} changes {changed}",
                "got": f"{expression(replacement)}: {replacement.type}",
                "expected": f"{expression(value)}: {value.type}",
            }
        )


def _type_difference(old: Value, new: Value) -> str:
    """The part of a type that differs, "" for none; sizes may be written otherwise."""
    if new.dtype != old.dtype:
        return "the dtype"
    if new.type.weak != old.type.weak:
        return "whether the dtype is weak"
    if new.type.rank != old.type.rank:
        return "the shape"
    sizes = zip(new.type.shape, old.type.shape, strict=True)
    return "the shape" if any(equal(a, b) is False for a, b in sizes) else ""
