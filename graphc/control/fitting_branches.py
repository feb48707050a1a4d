"""Branches whose sizes do not fit, which are errors only where such a branch is taken.

JAX traces all branches, with sizes that it knows. If a relation of sizes that a branch
needs does not hold, that branch returns zeros, and the segment returns, besides its
results, a flag that says whether another branch was taken. Only such segments return
flags.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphc.ir.graph.bodies import bodies_of, with_inner_nodes
from graphc.ir.graph.nodes import Node, divisors_of
from graphc.ir.graph.op import Array, op
from graphc.ir.types import JaxArray, NDArray, TensorType

if TYPE_CHECKING:
    from graphc.backends.prelude import ProgramError, require

Flags = list[tuple[str, str, Any]]  # messages, kinds of errors, and whether each fits


@op()
def _numbered_branches(
    index: Array, *, numbers: tuple[tuple[int, ...], ...]
) -> TensorType:
    """The index of a branch, with the numbers of the guards that each branch needs.

    The entry of a padded program knows which of these guards do not hold.
    """
    return index.type.like()


NUMBERED = _numbered_branches
_numbered_branches.emit("{index}")
_numbered_branches.no_gradient("it is made only after all gradients have been taken")
_numbered_branches.no_batch("it is made only after all batch axes have been added")
_numbered_branches.no_padding("it is made only after sizes have been padded")


def numbers_of(node: Node) -> tuple[tuple[int, ...], ...]:
    """The numbers of the guards that each branch of a switch needs."""
    index = node.inputs[0].node if node.inputs else node
    return index.params["numbers"] if index.primitive is NUMBERED else ()


def may_misfit(node: Node) -> bool:
    """Whether a branch of a switch needs a relation of sizes that is not proved."""
    inside = (n for body in bodies_of(node) for n in with_inner_nodes(body.nodes))
    return any(numbers_of(node)) or any(
        n.guards or divisors_of(n) or n.primitive is NUMBERED for n in inside
    )


def is_numbered(nodes: Iterable[Node]) -> bool:
    """Whether guards of branches in these nodes have numbers.

    The index of a branch may be computed in an earlier segment.
    """
    return any(map(numbers_of, with_inner_nodes(nodes)))


def known_misfits() -> dict[int, Exception]:
    """Printed into programs: the errors of guards that do not hold, by number."""
    thread = f"of_{threading.get_ident()}"
    errors: dict[int, Any] = vars(known_misfits).get(thread, {})
    return errors


def with_misfits(
    run: Callable[..., object],
    arguments: Sequence[object],
    errors: dict[int, Exception],
    traced: bool,
) -> object:
    """Printed into programs: the results where some guards of branches do not hold.

    A program that is traced is compiled for these guards.
    """
    thread, outer = f"of_{threading.get_ident()}", known_misfits()
    vars(known_misfits)[thread] = errors
    try:
        return run(*arguments, tuple(errors)) if traced else run(*arguments)
    finally:
        vars(known_misfits)[thread] = outer
        if not outer:
            del vars(known_misfits)[thread]


def guard_error(message: str, place: str, *sizes: int, kind: str = "shape") -> Any:
    """Printed into programs: the error of a guard that does not hold."""
    try:
        require(False, message, place, *sizes, kind=kind)
    except ProgramError as error:
        return error


def add_error(
    errors: dict[int, Exception], number: int, check: Callable[[], None]
) -> None:
    """Printed into programs: note the error of a guard, where there is one."""
    try:
        check()
    except ZeroDivisionError:
        errors[number] = ProgramError("a size is divided by zero", kind="zero")
    except ProgramError as error:
        errors[number] = error


def branch_that_fits(
    index: NDArray,
    branches: Sequence[Callable[..., object]],
    values: Sequence[object],
    numbers: Sequence[Sequence[int]],
) -> object:
    """Printed into NumPy programs: the results of the branch of a number."""
    taken = min(max(int(index), 0), len(branches) - 1)
    errors = known_misfits()
    for number in numbers[taken]:
        if number in errors:
            raise errors[number]
    return branches[taken](*values)


def open_flags() -> list[Any]:
    """Printed into JAX programs: the lists that branches traced now add flags to.

    The last is that of the innermost branch; None where it may have none. Each thread
    has its own.
    """
    thread = f"of_{threading.get_ident()}"
    stack: list[Any] = vars(open_flags).setdefault(thread, [])
    return stack


def attempt(
    function: Callable[..., object], values: Sequence[object]
) -> tuple[object, Flags]:
    """Printed into JAX programs: the results of a branch or segment, and its flags.

    Where it does not fit there are no results, and the last flag says so, unless those
    before tell all: an error that has been `told`.
    """
    stack = open_flags()
    stack.append([])
    results = None
    try:
        results = function(*values)
    except ZeroDivisionError:
        stack[-1].append(("a size is divided by zero", "zero", False))
    except ProgramError as error:
        if not hasattr(error, "told"):
            stack[-1].append((error.args[0], error.kind, False))
    finally:
        told = stack.pop()
    return results, told


def telling(segment: Callable[..., object], count: int = -1) -> Callable[..., object]:
    """Printed into JAX programs: a segment that gives flags too, if there are any.

    More than `count` arguments are numbers of guards that it is compiled for.
    """

    def traced(*arguments: object) -> object:
        passed = arguments if count < 0 else arguments[:count]
        results, told = attempt(segment, passed)
        if not told:
            return results
        flags = {(i, text, kind): flag for i, (text, kind, flag) in enumerate(told)}
        return {0: results, 1: flags}

    traced.__name__ = traced.__qualname__ = segment.__name__
    vars(traced)["taken_fit"] = lambda found: taken_fit(found)  # defined by then
    return traced


def taken_fit(found: object) -> object:
    """Printed into JAX programs: the results of a segment whose taken branches fit."""
    if type(found) is not dict or 0 not in found:
        return found
    for (_, text, kind), fits in sorted(found[1].items(), key=lambda pair: pair[0]):
        if not fits and kind == "number":
            raise known_misfits()[int(text)]
        if not fits:
            raise ProgramError(text, kind=kind)
    return found[0]


def switch_of_fitting(
    jax: ModuleType,
    index: JaxArray,
    branches: Sequence[Callable[..., object]],
    values: Sequence[object],
    sizes: Sequence[object],
    told: bool,
    numbers: Sequence[Sequence[int]] = (),
) -> object:
    """Printed into JAX programs: a switch of branches that need relations of sizes.

    It is `told` which do not fit, where it may be: else the first such is an error.
    `numbers` are those of guards that branches need beside those in them.
    """

    def with_sizes(i: int, branch: Callable[..., object]) -> Callable[..., object]:
        def run(*values: object) -> object:
            for number in numbers[i] if numbers else ():
                if number in known_misfits():
                    raise ProgramError(str(number), kind="number")
            return branch(*values, *sizes)

        return run

    functions = [with_sizes(i, branch) for i, branch in enumerate(branches)]
    if not isinstance(index, jax.core.Tracer):
        return functions[min(max(int(index), 0), len(branches) - 1)](*values)
    stack = open_flags()
    if not told or not stack or stack[-1] is None:
        return jax.lax.switch(index, functions, *values)
    stack.append(None)
    try:
        return jax.lax.switch(index, functions, *values)
    except (ProgramError, ZeroDivisionError):
        pass  # which branches are faulty is found one by one
    finally:
        stack.pop()
    return switch_with_flags(jax, index, functions, values)


def switch_with_flags(
    jax: ModuleType,
    index: JaxArray,
    branches: Sequence[Callable[..., object]],
    values: Sequence[object],
) -> object:
    """Printed into JAX programs: a switch; its branches tell where they do not fit.

    Where none fits there are no results: a ProgramError, of which flags tell all.
    """
    stack = open_flags()
    known = [types_and_faults(jax, branch, values) for branch in branches]
    types = next((types for types, _ in known if types is not None), ())
    asked = [(i, *fault) for i, (_, told) in enumerate(known) for fault in told]

    def flagged(i: int) -> Callable[..., object]:
        def run(*values: object) -> object:
            results, told = attempt(branches[i], values)
            if results is None:
                results = tuple([jax.numpy.zeros(t.shape, t.dtype) for t in types])
            branch_faults = iter(told)
            return results, [i != j or next(branch_faults)[2] for j, _, _ in asked]

        return run

    together = [flagged(i) for i in range(len(branches))]
    results, flags = jax.lax.switch(index, together, *values)
    for (_, text, kind), flag in zip(asked, flags):  # noqa: B905
        stack[-1].append((text, kind, flag))
    if all(types is None for types, _ in known):
        error = ProgramError("no branch fits")
        vars(error)["told"] = True
        raise error
    return results


def types_and_faults(
    jax: ModuleType, branch: Callable[..., object], values: Sequence[object]
) -> tuple[Sequence[JaxArray] | None, list[tuple[str, str]]]:
    """Printed into JAX programs: the types that a branch gives, and faults within.

    One that is faulty itself gives None.
    """
    faults: list[tuple[str, str]] = []

    def looked_at(*values: object) -> object:
        results, told = attempt(branch, values)
        faults[:] = [(text, kind) for text, kind, _ in told]
        return results

    return jax.eval_shape(looked_at, *values), faults
