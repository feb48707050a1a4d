"""Random typed programs: built symbolically, and interpreted directly by NumPy.

A program is a list of steps. Each step applies one function twice: to symbolic values
through `graphc.tensor`, and to arrays through `numpy`. The arrays tell the generator
which arguments are valid. Values that went through rounding are marked: a function with
jumps (floor, comparisons, argmax, sorting ...) is applied to exact values only, since
one rounding may put two backends on different sides of a jump.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.special

import graphc
import graphc.tensor as gt
from graphc.ir.sizes.dims import may_be_one, substitute

DTYPES = ("float64", "float32", "int64", "int32", "bool", "uint8", "complex64")
SIZES = (0, 1, 2, 3, 4)
LARGEST = 1e6


@dataclass
class Known:
    """A value, symbolic and as an array, with the call and arguments it came from."""

    symbolic: Any
    array: np.ndarray
    exact: bool
    narrow: bool = False  # whether an earlier step rounded to 32 bits
    call: Any = None
    args: "tuple[Known, ...]" = ()


@dataclass
class Program:
    """Inputs with their arguments, and every value made from them."""

    inputs: list[Any]
    arguments: list[Any]
    made: list[Known] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """A kind of step: `draw` picks arguments and returns the call, or None."""

    name: str
    draw: Callable[[np.random.Generator, list[Known]], Any]
    jumps: bool = False
    exact: bool = True
    narrows: bool = False  # it computes with 32 bits unless its arguments have more


STEPS: list[Step] = []


def step(name: str, *, jumps: bool = False, exact: bool = True) -> Any:
    """Register a kind of step."""

    def join(draw: Any) -> Any:
        STEPS.append(Step(name, draw, jumps, exact))
        return draw

    return join


def pick(rng: np.random.Generator, pool: list[Known], kinds: str, rank: int = 0) -> Any:
    """Pick a value whose dtype kind is in `kinds` and whose rank is at least `rank`."""
    fit = [k for k in pool if k.array.dtype.kind in kinds and k.array.ndim >= rank]
    return fit[rng.integers(len(fit))] if fit else None


def unary(names: str, kinds: str, **flags: Any) -> None:
    """Register functions of one array as steps."""
    for name in names.split():

        def draw(rng: Any, pool: list[Known], name: str = name) -> Any:
            x = pick(rng, pool, kinds)
            return x and (lambda xp, x: getattr(xp, name)(x), (x,))

        step(name, **flags)(draw)


def binary(names: str, kinds: str, **flags: Any) -> None:
    """Register functions of two broadcasting arrays, or of an array and a number."""
    for name in names.split():

        def draw(rng: Any, pool: list[Known], name: str = name) -> Any:
            x = pick(rng, pool, kinds)
            if x is None:
                return None
            if rng.random() < 0.3:
                number = int(rng.integers(1, 4))
                return (lambda xp, x: getattr(xp, name)(x, number), (x,))
            y = pick(rng, [k for k in pool if _broadcasts(x, k)], kinds)
            return y and (lambda xp, x, y: getattr(xp, name)(x, y), (x, y))

        step(name, **flags)(draw)


def _broadcasts(a: Known, b: Known) -> bool:
    """Whether two arrays broadcast, stretching only axes declared as possibly 1."""
    (ms, ss), (ns, ts) = (
        (k.array.shape[::-1], k.symbolic.type.shape[::-1]) for k in (a, b)
    )
    axes = zip(ms, ss, ns, ts, strict=False)
    return all(m == n or _stretches(s) or _stretches(t) for m, s, n, t in axes)


def _stretches(size: Any) -> bool:
    """Whether a size is 1 because axes that may be 1 are."""
    if not may_be_one(size):
        return False
    ones = dict.fromkeys([s for s in size.symbols if s.name.startswith("one")], 1)
    return isinstance(substitute(size, ones), int)


def reduction(names: str, kinds: str, *, nonempty: bool = False, **flags: Any) -> None:
    """Register reductions over one axis, some axes or all of them."""
    for name in names.split():

        def draw(rng: Any, pool: list[Known], name: str = name) -> Any:
            x = pick(rng, pool, kinds)
            if x is None or (nonempty and 0 in x.array.shape):
                return None
            axis = None
            if x.array.ndim and rng.random() < 0.7:
                axis = int(rng.integers(-x.array.ndim, x.array.ndim))
            if name.startswith("cum") or name.startswith("arg"):
                return (lambda xp, x: getattr(xp, name)(x, axis=axis), (x,))
            keep = bool(rng.random() < 0.3)
            return (
                lambda xp, x: getattr(xp, name)(x, axis=axis, keepdims=keep),
                (x,),
            )

        step(name, **flags)(draw)


unary("negative positive absolute square conjugate", "iuf")
unary("negative conjugate square real imag", "c")
unary("exp expm1 sin cos tanh arctan sinh arcsinh sqrt cbrt log1p", "f", exact=False)
unary("exp sin", "c", exact=False)
unary("floor ceil trunc rint sign isnan isinf isfinite signbit", "f", jumps=True)
unary("logical_not invert", "b")
unary("invert bitwise_count", "iu")
unary("ravel flip transpose atleast_2d atleast_1d", "biufc")
binary("add multiply", "biu")
binary("add subtract multiply", "f", exact=False)
binary("add subtract multiply", "c", exact=False)
binary("minimum maximum fmin fmax", "iu")
binary("minimum maximum fmin fmax copysign", "f", jumps=True)
binary("arctan2 hypot logaddexp", "f", exact=False)
binary("bitwise_and bitwise_or bitwise_xor", "iu")
binary("logical_and logical_or logical_xor", "b")
binary("equal less greater_equal not_equal", "biu")
binary("equal less greater_equal not_equal", "f", jumps=True)
reduction("sum prod max min any all", "b", nonempty=True)
reduction("sum any all", "biu")
reduction("sum mean", "f", exact=False)
reduction("sum", "c", exact=False)
reduction("max min", "iu", nonempty=True)
reduction("max min argmax argmin", "f", nonempty=True, jumps=True)
reduction("argmax argmin", "iu", nonempty=True)
reduction("std var", "f", nonempty=True, exact=False)
reduction("cumsum", "iu")
reduction("cumsum cumprod", "f", exact=False)
reduction("median ptp", "f", nonempty=True, jumps=True, exact=False)
reduction("nansum nanmax nanmin", "f", nonempty=True, jumps=True, exact=False)


@step("divide", exact=False)
def _divide(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "iuf")
    return x and (lambda xp, x: x / (xp.absolute(x) + 1), (x,))


@step("floor_divide")
def _floor_divide(rng: Any, pool: list[Known]) -> Any:
    x, n = pick(rng, pool, "i"), int(rng.choice([-3, 2, 5]))
    return x and (lambda xp, x: x // n + x % n, (x,))


@step("astype", jumps=True)
def _astype(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biuf")
    to = str(rng.choice(["float64", "float32", "int64", "int32", "bool"]))
    if x is None or not np.isfinite(x.array).all():
        return None
    return (lambda xp, x: x.astype(to), (x,))


@step("where")
def _where(rng: Any, pool: list[Known]) -> Any:
    x, y = pick(rng, pool, "biuf"), pick(rng, pool, "biuf")
    mask = pick(rng, pool, "b")
    if x is None or y is None or mask is None:
        return None
    if not (_broadcasts(x, y) and _broadcasts(x, mask) and _broadcasts(y, mask)):
        return None
    return (lambda xp, m, x, y: xp.where(m, x, y), (mask, x, y))


@step("reshape")
def _reshape(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc", 1)
    if x is None or not x.array.size:
        return None
    divisors = [d for d in (1, 2, 3, 4, 6) if x.array.size % d == 0]
    d = int(rng.choice(divisors))
    return (lambda xp, x: xp.reshape(x, (d, -1)), (x,))


@step("expand_dims")
def _expand(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc")
    if x is None or x.array.ndim > 2:
        return None
    axis = int(rng.integers(-x.array.ndim - 1, x.array.ndim + 1))
    return (lambda xp, x: xp.expand_dims(x, axis), (x,))


@step("moveaxis")
def _moveaxis(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc", 2)
    return x and (lambda xp, x: xp.moveaxis(x, 0, -1), (x,))


@step("join")
def _join(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc", 1)
    if x is None:
        return None
    axis = int(rng.integers(x.array.ndim))
    alike = [
        k
        for k in pool
        if k.array.ndim == x.array.ndim
        and all(
            a == b or i == axis
            for i, (a, b) in enumerate(zip(k.array.shape, x.array.shape, strict=True))
        )
    ]
    y = alike[rng.integers(len(alike))]
    return (lambda xp, x, y: xp.concatenate([x, y], axis=axis), (x, y))


@step("stack")
def _stack(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biuf")
    if x is None or x.array.ndim > 2:
        return None
    return (lambda xp, x: xp.stack([x, x], axis=-1), (x,))


@step("slice")
def _slice(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc", 1)
    if x is None:
        return None
    a, b = (int(v) for v in rng.integers(-4, 5, 2))
    s = int(rng.choice([-2, -1, 1, 2]))
    return (lambda xp, x: x[a:b:s], (x,))


@step("ellipsis")
def _ellipsis(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc", 1)
    if x is None or not x.array.shape[-1]:
        return None
    return (lambda xp, x: x[..., -1], (x,))


@step("take")
def _take(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biufc", 1)
    if x is None or not x.array.shape[0]:
        return None
    index = rng.integers(-x.array.shape[0], x.array.shape[0], (2, 3))
    return (lambda xp, x: xp.take(x, index, axis=0), (x,))


@step("mask")
def _mask(rng: Any, pool: list[Known]) -> Any:
    mask = pick(rng, pool, "b", 1)
    if mask is None:
        return None
    shape = mask.array.shape
    fit = [k for k in pool if k.array.shape[: len(shape)] == shape]
    x = fit[rng.integers(len(fit))]
    return (lambda xp, x, m: x[m], (x, mask))


@step("count")
def _count(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biu")
    return x and (lambda xp, x: xp.count_nonzero(x), (x,))


@step("sort", jumps=True)
def _sort(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biuf", 1)
    axis = x and int(rng.integers(x.array.ndim))
    return x and (lambda xp, x: xp.sort(x, axis=axis), (x,))


@step("unique", jumps=True)
def _unique(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "iuf", 1)
    return x and (lambda xp, x: xp.unique(x), (x,))


@step("matmul", exact=False)
def _matmul(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "fc", 2)
    return x and (lambda xp, x: x @ xp.swapaxes(xp.conjugate(x), -1, -2), (x,))


@step("outer", exact=False)
def _outer(rng: Any, pool: list[Known]) -> Any:
    x, y = pick(rng, pool, "if", 1), pick(rng, pool, "if", 1)
    return x and (lambda xp, x, y: xp.outer(x[:3], y[:2]), (x, y))


@step("repeat")
def _repeat(rng: Any, pool: list[Known]) -> Any:
    x, n = pick(rng, pool, "biuf", 1), int(rng.integers(0, 3))
    return x and (lambda xp, x: xp.repeat(x, n, axis=-1), (x,))


@step("tile")
def _tile(rng: Any, pool: list[Known]) -> Any:
    x, n = pick(rng, pool, "biuf", 1), int(rng.integers(1, 3))
    return x and (lambda xp, x: xp.tile(x, n), (x,))


@step("pad")
def _pad(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "iuf", 1)
    return x and (lambda xp, x: xp.pad(x, (1, 2), constant_values=3), (x,))


@step("roll")
def _roll(rng: Any, pool: list[Known]) -> Any:
    x, n = pick(rng, pool, "biuf", 1), int(rng.integers(-5, 6))
    return x and (lambda xp, x: xp.roll(x, n), (x,))


@step("searchsorted", jumps=True)
def _searchsorted(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "if")
    side = str(rng.choice(["left", "right"]))
    if x is None:
        return None
    table = np.arange(-2, 3).astype(x.array.dtype)
    return (lambda xp, x: xp.searchsorted(xp.asarray(table), x, side=side), (x,))


@step("cut by a size")
def _cut(rng: Any, pool: list[Known]) -> Any:
    x, y = pick(rng, pool, "biuf", 1), pick(rng, pool, "biuf", 1)
    if x is None or y is None:
        return None
    return (lambda xp, x, y: x[: y.shape[0] // 2 + 1], (x, y))


@step("arange of a size")
def _arange(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "biuf", 1)
    return x and (lambda xp, x: xp.arange(x.shape[0] + 1) * x.shape[-1], (x,))


def in_space(space: str, names: str, kinds: str, rank: int = 0) -> None:
    """Register functions of a space of graphc.tensor that NumPy has by that name."""
    for name in names.split():

        def draw(rng: Any, pool: list[Known], name: str = name) -> Any:
            x = pick(rng, pool, kinds, rank)
            if x is None or 0 in x.array.shape or not np.isfinite(x.array).all():
                return None
            return (lambda xp, x: getattr(getattr(xp, space), name)(x), (x,))

        step(f"{space}.{name}", exact=False)(draw)


in_space("fft", "fft ifft fftshift", "fc", 1)
in_space("fft", "rfft", "f", 1)
in_space("linalg", "norm", "f", 1)


@step("linalg of a definite matrix", exact=False)
def _definite(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f", 2)
    name = str(rng.choice(["inv", "det", "cholesky", "eigvalsh"]))
    if x is None or 0 in x.array.shape or not np.isfinite(x.array).all():
        return None

    def call(xp: Any, x: Any) -> Any:
        small = xp.tanh(x)
        square = small @ xp.swapaxes(small, -1, -2)
        shifted = square + 2 * xp.eye(square.shape[-1], dtype=str(x.dtype))
        return getattr(xp.linalg, name)(shifted)

    return (call, (x,))


@step("special", exact=False)
def _special(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f")
    name = str(rng.choice(["erf", "erfc", "expit", "ndtr", "i0e", "xlogy"]))
    if x is None:
        return None

    def call(xp: Any, x: Any) -> Any:
        space = gt.special if xp is gt else scipy.special
        if name == "xlogy":
            return space.xlogy(x, xp.absolute(x))
        return getattr(space, name)(x)

    return (call, (x,))


@step("softmax", exact=False)
def _softmax(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f", 1)
    if x is None or 0 in x.array.shape or not np.isfinite(x.array).all():
        return None
    names = [(gt.nn.softmax, scipy.special.softmax)]
    names += [(gt.nn.logsumexp, scipy.special.logsumexp)]
    ours, theirs = names[rng.integers(2)]
    return (lambda xp, x: (ours if xp is gt else theirs)(x, axis=-1), (x,))


def new_input(
    rng: np.random.Generator,
    number: int,
    dtypes: Sequence[str],
    stretching: bool = False,
) -> tuple[Any, np.ndarray]:
    """A variable and an argument, on a coarse grid with a few special values."""
    dtype = str(rng.choice(dtypes))
    sizes = (*SIZES, 1, 1, 1, 3, 3) if stretching else SIZES
    shape = tuple(int(n) for n in rng.choice(sizes, rng.integers(0, 4)))
    grid = rng.integers(-8, 9, shape)
    array = (grid / 4 if np.dtype(dtype).kind in "fc" else np.abs(grid)).astype(dtype)
    if np.dtype(dtype).kind == "f" and array.size and rng.random() < 0.2:
        array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf])
    axes = tuple(
        n if rng.random() < 0.3 else f"s{number}_{i}" for i, n in enumerate(shape)
    )
    if stretching:
        axes = (
            tuple(
                n
                if rng.random() < 0.2
                else f"{'one' if n == 1 else 'axis'}{number}_{i}?"
                for i, n in enumerate(shape[:2])
            )
            + axes[2:]
        )
    return gt.tensor(f"x{number}", dtype, axes), array


def generate(
    seed: int,
    more: Sequence[Step] = (),
    length: int = 12,
    dtypes: Sequence[str] = DTYPES,
    stretching: bool = False,
) -> Program:
    """Make the program of a seed from the steps above and from `more`.

    If it is `stretching`, most axes may be 1 and are declared so.
    """
    steps = [*STEPS, *more]
    rng = np.random.default_rng(seed)
    program = Program([], [])
    pool: list[Known] = []
    for number in range(int(rng.integers(1, 4))):
        symbolic, array = new_input(rng, number, dtypes, stretching)
        program.inputs.append(symbolic)
        program.arguments.append(array)
        pool.append(Known(symbolic, array, True))
    while len(program.made) < length:
        kind = steps[rng.integers(len(steps))]
        able = [k for k in pool if k.exact or not kind.jumps]
        drawn = kind.draw(rng, able) if able else None
        if drawn:
            _apply(program, pool, kind, *drawn)
        elif rng.random() < 0.01:
            break
    return program


def _apply(
    program: Program, pool: list[Known], kind: Step, call: Any, args: tuple[Any, ...]
) -> None:
    """Run one step symbolically and on arrays; drop results that are too large."""
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(call(np, *(k.array for k in args)))
    except (ValueError, TypeError, IndexError):  # the rank or size does not fit
        return
    big = array.size > 200 or array.ndim > 4
    if big or (array.size and np.nanmax(np.abs(array), initial=0) > LARGEST):
        return
    symbolic = call(gt, *(k.symbolic for k in args))
    exact = kind.exact and all(k.exact for k in args)
    narrow = array.dtype in (np.float32, np.complex64) and not exact
    narrow = narrow or any(k.narrow for k in args)
    widest = np.result_type(np.float32, *(k.array.dtype for k in args))
    narrow = narrow or (kind.narrows and widest in (np.float32, np.complex64))
    exact = exact or array.dtype.kind in "biu"
    known = Known(symbolic, array, exact, narrow, call, args)
    program.steps.append(f"{kind.name}: {array.dtype}{array.shape}")
    program.made.append(known)
    pool.append(known)


def arguments_at(program: Program, factor: int) -> list[np.ndarray]:
    """The arguments with each symbolic axis `factor` times as long."""
    found = []
    for value, array in zip(program.inputs, program.arguments, strict=True):
        for axis, size in enumerate(value.type.shape):
            if not isinstance(size, int):
                array = np.concatenate([array] * factor, axis)
        found.append(array)
    return found


def made_of(program: Program, arguments: list[np.ndarray]) -> list[Any]:
    """Compute all values by NumPy for other arguments; None where that fails.

    Values that have grown too large are None too, and so is all that is made of them.
    """
    env = dict(zip(map(id, program.inputs), arguments, strict=True))
    for known in program.made:
        given = [env.get(id(k.symbolic)) for k in known.args]
        found = None
        if all(a is not None for a in given):
            try:
                with np.errstate(all="ignore"):
                    found = np.asarray(known.call(np, *given))
            except (ValueError, TypeError, IndexError, np.linalg.LinAlgError):
                found = None
        finite = found is not None and found[np.isfinite(found)]
        if found is not None and np.max(np.abs(finite), initial=0) > LARGEST:
            found = None
        env[id(known.symbolic)] = found
    return [env[id(known.symbolic)] for known in program.made]


def tolerance(known: Known) -> dict[str, float]:
    """The error that rounding may cause in a dozen steps."""
    limit = 2e-3 if known.narrow else 1e-9
    return {"rtol": limit, "atol": limit}


def run(program: Program, backend: str, **options: Any) -> list[np.ndarray]:
    """Compute all values of the program by one compiled function."""
    outputs = [k.symbolic for k in program.made]
    f = graphc.function(program.inputs, outputs, backend=backend, **options)
    return [np.asarray(a) for a in f(*program.arguments)]
