"""How long until the first result of a function that repeats a function?

A round stirs a 4 x 4 matrix of bits, as ciphers do: shift, read the diagonals, shift,
add. If the rounds are written as plain Python code, JAX compiles every round anew, and
XLA takes twice as long for each further round: 7 rounds compile in a moment, 20 in
minutes. So people write `fori_loop` or `scan` by hand. graphc finds that the rounds are
alike, and makes a loop of them: the code stays as it is.

All ways must give the bits that NumPy gives. The table shows the CPU seconds to the
first result, from nothing, and the microseconds per call.
Run it: python examples/many_rounds.py
"""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt

COUNTS = (7, 14, 20, 100, 400)
MOST_UNROLLED = 7  # rounds that plain JAX compiles in less than a second
PLACES = np.arange(4)
DIAGONALS = PLACES[:, None], (PLACES + PLACES[:, None]) % 4


def stirred(m: Any) -> Any:
    """Do one round."""
    m = (m << np.uint32(7)) ^ (m >> np.uint32(25))
    return m + (m[DIAGONALS] << np.uint32(3))


def rounds(m: Any, count: int) -> Any:
    """Do `count` rounds, as anybody would write them."""
    for _ in range(count):
        m = stirred(m)
    return m


def by_graphc(count: int) -> Callable[..., Any]:
    """Compile the rounds as they are written with graphc."""
    m = gt.tensor("m", "uint32", (4, 4))
    return graphc.function([m], rounds(m, count))


def unrolled(count: int) -> Callable[..., Any]:
    """Compile the rounds as they are written with JAX."""
    return jax.jit(lambda m: rounds(m, count))


def by_fori_loop(count: int) -> Callable[..., Any]:
    """Compile a `fori_loop` of JAX, written by hand."""
    step = lambda _, m: stirred(m)  # noqa: E731
    return jax.jit(lambda m: jax.lax.fori_loop(0, count, step, m))


def by_scan(count: int) -> Callable[..., Any]:
    """Compile a scan, written by hand, with 4 steps unrolled."""

    def all_of(m: Any) -> Any:
        step = lambda m, _: (stirred(m), None)  # noqa: E731
        return jax.lax.scan(step, m, None, count, unroll=4)[0]

    return jax.jit(all_of)


WAYS: dict[str, Callable[[int], Callable[..., Any]]] = {
    "graphc": by_graphc,
    "unrolled": unrolled,
    "fori_loop": by_fori_loop,
    "scan": by_scan,
}


def measured(
    make: Callable[[int], Callable[..., Any]], count: int, m: Any
) -> tuple[Any, float, float]:
    """Return the result, the CPU seconds until it came, and the seconds per call."""
    start = time.process_time()
    f = make(count)
    result = np.asarray(f(m))
    first = time.process_time() - start
    calls, start = 200, time.perf_counter()
    for _ in range(calls):
        last = f(m)
    jax.block_until_ready(last)
    return result, first, (time.perf_counter() - start) / calls


def main(counts: Iterable[int] = COUNTS) -> int:
    """Print the table; return 0 if all ways give NumPy's bits."""
    given = np.arange(16, dtype="uint32").reshape(4, 4)
    m, agree = jnp.asarray(given), True
    for make in WAYS.values():
        make(1)(m)  # work that is done once per process does not count
    print("rounds" + "".join(f"{name:>20}" for name in WAYS))
    for count in counts:
        cells = []
        for name, make in WAYS.items():
            if name == "unrolled" and count > MOST_UNROLLED:
                cells.append("(takes too long)")
                continue
            result, first, call = measured(make, count, m)
            agree &= bool((result == rounds(given, count)).all())
            cells.append(f"{first:.2f} s, {call * 1e6:.0f} us")
        print(f"{count:>6}" + "".join(f"{cell:>20}" for cell in cells))
    print("everything agrees" if agree else "THEY DIFFER")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
