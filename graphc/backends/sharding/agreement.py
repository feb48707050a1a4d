"""Calls that several processes make together, on which they agree before they run.

If devices of several processes run different programs, or one program on arrays of
different sizes, they wait for each other or compute nonsense. So each process tells the
first one what it calls, through the key-value store of `jax.distributed`, and all of
them get the same answer.
"""

import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def agree_between(
    jax: ModuleType,
    error: Callable[..., Exception],
    processes: tuple[int, ...],
    seconds: float,
    program: str,
    arguments: dict[str, object],
) -> None:
    """Printed into programs: go on where all processes make this call, alike.

    Raises `error` in all of them where one differs, or has not come after so many
    seconds. In transformations of JAX there is no call yet.
    """
    if any(isinstance(a, jax.core.Tracer) for a in arguments.values()):
        return
    store, group, call = next_call(jax, processes)
    rank, first, here = jax.process_index(), processes[0], f"{group}/{call}/"
    lines = [f"{name}: {described_for_all(a)}" for name, a in arguments.items()]
    message = "\n".join([f"program: {program}", *lines])
    if rank != first:
        store.key_value_set(f"{here}{rank}", message)
        answer = awaited(store, f"{here}answer", seconds + 10)
        if answer is None:
            answer = f"process {first} has not come to call {call}"
    else:
        answer = answer_of(store, processes, here, message, seconds, call)
        store.key_value_set(f"{here}answer", answer)
        store.key_value_delete(f"{group}/{call - 1}/")  # which all have read
    if answer:
        raise error(answer, kind="process")


def next_call(jax: ModuleType, processes: tuple[int, ...]) -> tuple[Any, str, int]:
    """Printed into programs: the store, the key of the processes, the call's number."""
    store, rank = jax._src.distributed.global_state.client, jax.process_index()
    group = f"graphc/{'-'.join(map(str, processes))}"
    return store, group, store.key_value_increment(f"{group}/calls/{rank}", 1)


def withdraw_from(
    jax: ModuleType,
    processes: tuple[int, ...],
    problem: str,
    arguments: Sequence[object],
) -> None:
    """Let the other processes know that this one has refused the arguments of a call.

    Otherwise they would wait for it, or take its next call for this one. This process
    does not wait.
    """
    if any(isinstance(a, jax.core.Tracer) for a in arguments):
        return
    store, group, call = next_call(jax, processes)
    rank, (line, *_) = jax.process_index(), problem.splitlines()
    refusal = f"process {rank} has refused its call: {line}"
    key = "answer" if rank == processes[0] else rank
    store.key_value_set(f"{group}/{call}/{key}", refusal)


def described_for_all(argument: Any) -> str:
    """Printed into programs: what must be the same in all processes.

    An integer may be a size, and decide what is called: its value is told as well,
    unless the processes have it on their devices together.
    """
    if not hasattr(argument, "shape"):
        return repr(argument)
    kind = f"{argument.dtype}[{', '.join(map(str, argument.shape))}]"
    if argument.shape or argument.dtype.kind not in "iu":
        return kind
    is_here = getattr(argument, "is_fully_addressable", True)
    return f"{kind} of {argument.item()}" if is_here else kind


def answer_of(
    store: object,
    processes: tuple[int, ...],
    here: str,
    message: str,
    seconds: float,
    call: int,
) -> str:
    """Printed into programs: the first difference between processes, "" for none."""
    until = time.monotonic() + seconds
    first, *others = processes
    answer = ""
    for rank in others:
        theirs = awaited(store, f"{here}{rank}", until - time.monotonic())
        if theirs is None:
            return f"process {rank} has not come to call {call} within {seconds} s"
        pairs = zip(message.splitlines(), theirs.splitlines())  # noqa: B905
        differing = [(ours, other) for ours, other in pairs if ours != other]
        if differing and not answer:
            ours, other = differing[0]
            answer = f"process {first} has {ours}, and process {rank} has {other}"
            if not other.startswith("program: ") and ours.startswith("program: "):
                answer = other  # that it has refused the call
            elif ours.startswith("program: "):
                answer = f"processes {first} and {rank} call different programs"
    return answer


def awaited(store: Any, key: str, seconds: float) -> str | None:
    """Printed into programs: the text of a key, None if it is not there in time.

    The user may interrupt: no wait takes more than a second.
    """
    until = time.monotonic() + seconds
    while True:
        left = max(until - time.monotonic(), 0)
        try:
            return store.blocking_key_value_get(key, int(min(left, 1) * 1000) + 1)
        except Exception as problem:
            if "DEADLINE_EXCEEDED" not in str(problem):
                raise
            if not left:
                return None
