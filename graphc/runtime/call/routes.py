"""The routes of the calls of a function: the shortest for each kind of arguments."""

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import NamedTuple

from graphc.runtime.call.arguments import Signature
from graphc.runtime.call.copying import on_borrowed, on_copies, on_small_copies
from graphc.runtime.call.dispatch import Route, Run
from graphc.runtime.driver import xla
from graphc.runtime.driver.ahead import OnlySegment
from graphc.runtime.driver.misfits import miss_without_flags
from graphc_serving import private_jax


class Calls(NamedTuple):
    """The ways in which a function runs its calls.

    `run` takes all calls, `missed` those that JAX has no program for, and `leave` those
    that came to a route that is not for them.
    """

    run: Run
    missed: Run
    leave: Run


@dataclass(eq=False)
class Routes:
    """The routes of calls of one program.

    `host` takes all arguments, `plans` calls that have a plan, `device` arrays of JAX
    in the dtypes of the inputs, `borrowed` NumPy arrays that nobody writes to, `small`
    those that are copied at little cost, and `copies` the other NumPy arrays. Where the
    whole program is one jitted function, the last four end in JAX's own dispatch, whose
    cache miss is `miss`.
    """

    host: Route
    plans: Route
    device: Route
    borrowed: Route
    small: Route
    copies: Route
    miss: Run

    @classmethod
    def of(cls, call: Run, planned: Run | None) -> "Routes":
        """Make routes that end in `call`, which binds and admits arguments.

        Calls that have a plan end in `planned`.
        """
        host = Route(call)
        plans = host if planned is None else Route(planned)
        return cls(host, plans, host, host, host, host, call)

    def shorten(
        self, segment: OnlySegment, jax: ModuleType, signature: Signature, calls: Calls
    ) -> None:
        """Let calls go straight to a jitted function, if JAX can."""
        jitted, borrowed = segment.jitted, partial(calls.missed, borrowed=True)
        miss = private_jax.cache_miss(jitted)
        plain = private_jax.dispatched(jax, jitted, calls.missed, calls.run)
        borrowing = private_jax.dispatched(jax, jitted, borrowed, calls.run)
        if miss is None or plain is None or borrowing is None:
            return
        miss = miss_without_flags(miss, jitted)
        if segment.wide:
            miss = jax.enable_x64(True)(miss)
            borrowing = xla.with_64_bits(jax, calls.run, borrowing)
        dtypes, leave = signature.dtypes, calls.leave
        self.miss = miss
        self.device = Route(plain)
        self.borrowed = Route(on_borrowed(borrowing, dtypes, calls.run))
        self.small = Route(on_small_copies(borrowing, dtypes, leave))
        self.copies = Route(on_copies(borrowing, dtypes, signature.plain, leave))

    @property
    def all(self) -> set[Route]:
        """The distinct routes."""
        several = self.borrowed, self.small, self.copies
        return {self.host, self.plans, self.device, *several}
