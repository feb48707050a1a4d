"""Tables of rules: for one concern, a rule for each primitive or a reason for none.

Gradients, batching, padding, bounds and the text of each backend are tables. A new
concern brings a table of its own, in its own file; ops need not know of it.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

RuleT = TypeVar("RuleT")


class OfName(Protocol):
    """The part of a primitive that a table needs."""

    name: str


class RuleTable(Generic[RuleT]):
    """The rules of one concern by primitive, and reasons why primitives have none."""

    def __init__(self, concern: str) -> None:
        self.concern = concern
        self.rules: dict[OfName, RuleT] = {}
        self.reasons: dict[OfName, str] = {}

    def __repr__(self) -> str:
        return f"<rules of {self.concern}: {len(self.rules)}>"

    def define(self, primitive: OfName, rule: RuleT) -> None:
        """Set the rule of `primitive`, replacing any earlier one."""
        self.rules[primitive] = rule

    def of(self, *primitives: OfName) -> Callable[[RuleT], RuleT]:
        """Decorator: make the function the rule of these primitives."""

        def join(rule: RuleT) -> RuleT:
            for primitive in primitives:
                self.define(primitive, rule)
            return rule

        return join

    def refuse(self, primitive: OfName, reason: str) -> None:
        """Note why `primitive` has no rule, for messages."""
        self.reasons[primitive] = reason

    def find(self, primitive: OfName) -> RuleT | None:
        """The rule of `primitive`, or None."""
        return self.rules.get(primitive)

    def reason(self, primitive: OfName, otherwise: str = "") -> str:
        """The reason why `primitive` has no rule; `otherwise` if none is noted."""
        return self.reasons.get(primitive, otherwise)

    def __contains__(self, primitive: OfName) -> bool:
        return primitive in self.rules
