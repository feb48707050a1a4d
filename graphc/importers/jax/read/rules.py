"""The table of rules: one per primitive of JAX, or the reason why there is none."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from graphc.importers.jax.read.unsupported import Unsupported

JaxRule = Callable[..., Any]
ONE_DEVICE = "graphs know nothing of several devices"


class RulesByName:
    """Rules by primitive name, since no version of JAX has all of these primitives.

    Each name has one rule, or is refused with a reason. A rule names the params that
    hold sizes; integers in other params are axes, counts or exponents. A rule also
    names the param that is a function of the user, called on the host.
    """

    def __init__(self) -> None:
        self._rules: dict[str, JaxRule] = {}
        self._sizes: dict[str, frozenset[str]] = {}
        self._called: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def define(
        self, *names: str, sizes: Iterable[str] = (), called: str = ""
    ) -> Callable[[JaxRule], JaxRule]:
        """Decorator: define the rule of these names, and the params that hold sizes.

        The param named by `called` is a function of the user, or a text.
        """

        def join(rule: JaxRule) -> JaxRule:
            for name in names:
                self._require_new(name)
                self._rules[name] = rule
                self._sizes[name] = frozenset(sizes)
                self._called[name] = called
            return rule

        return join

    def refuse(self, reason: str, *names: str) -> None:
        """Declare that there is no rule for these names, and why."""
        for name in names:
            self._require_new(name)
            self._refused[name] = reason

    def find(self, name: str) -> JaxRule:
        """The rule of a name. Raises Unsupported with the reason if there is none."""
        rule = self._rules.get(name)
        if rule is None:
            reason = self._refused.get(name, "this primitive is not known here")
            raise Unsupported(f"{name}: {reason}")
        return rule

    def sizes_of(self, name: str) -> frozenset[str]:
        """The params that hold sizes, for a name that has a rule."""
        return self._sizes[name]

    def called_by(self, name: str) -> str:
        """The param that is a function of the user, for a name that has a rule."""
        return self._called[name]

    def has_rule(self, name: str) -> bool:
        """Whether a name has a rule, rather than being refused or unknown."""
        return name in self._rules

    def __contains__(self, name: str) -> bool:
        return name in self._rules or name in self._refused

    def __iter__(self) -> Iterator[str]:
        return iter((*self._rules, *self._refused))

    def _require_new(self, name: str) -> None:
        if name in self:
            raise ValueError(f"{name} has a rule already")


PRIMITIVES = RulesByName()
"""The rules of JAX's primitives: `rule(equation, *inputs)` gives the results."""
