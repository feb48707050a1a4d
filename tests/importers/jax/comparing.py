"""Compare `graphc.jit` with `jax.jit` on functions of JAX, at several sizes."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import graphc

SIZES = (4, 3, 5)
MANY_SIZES = (5, 6, 9, 12, 7, 16, 17, 8, 20, 3, 2, 1, 0, 24, 33, 12, 6)
SEVERAL_SIZES = (5, 6, 9, 12, 7, 16, 17, 8, 20, 1, 0, 6)
KINDS = {
    "": lambda rng, shape: rng.normal(size=shape).astype("float32"),
    "p": lambda rng, shape: rng.uniform(0.5, 3, size=shape).astype("float32"),
    "u": lambda rng, shape: rng.uniform(0.05, 0.95, size=shape).astype("float32"),
    "i": lambda rng, shape: rng.integers(0, 3, size=shape).astype("int32"),
    "b": lambda rng, shape: rng.random(size=shape) < 0.5,
    "c": lambda rng, shape: (
        rng.normal(size=shape) + 1j * rng.normal(size=shape)
    ).astype("complex64"),
}


def arguments(words, n, seed=0):
    """Arrays of the shapes that `words` give, for a size n."""
    rng = np.random.default_rng((seed, n))
    found = []
    for word in words:
        if word == "k":
            found.append(jax.random.PRNGKey(7))
            continue
        text, _, kind = word.partition(":")
        shape = tuple(n if part == "n" else int(part) for part in text.split())
        found.append(KINDS[kind](rng, shape))
    return found


def gradient_of(function, words):
    """The gradient of a weighted sum of all results, by the first float argument."""
    at = next((i for i, w in enumerate(words) if w[-1] not in "ibck"), None)
    if at is None:
        return None

    def cost(*args):
        total = 0.0
        for leaf in jax.tree.leaves(function(*args)):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                wave = jnp.cos(jnp.arange(leaf.size, dtype="float32"))
                total += jnp.sum(leaf.astype("float32") * wave.reshape(leaf.shape))
        return total

    return jax.grad(cost, argnums=at)


def outcome(function, args):
    """The results of a call, or its exception."""
    try:
        return jax.block_until_ready(function(*args))
    except Exception as error:
        return error


def outcomes_by_jax(function, calls):
    """The outcomes by `jax.jit` of several calls by key, compiled all at once.

    Compiling at once is quicker for many small programs, but not for large ones.
    """
    errors = {}

    def of_all(calls):
        outcomes = {key: outcome(function, args) for key, args in calls.items()}
        failed = {k: v for k, v in outcomes.items() if isinstance(v, Exception)}
        errors.update(failed)
        return {k: v for k, v in outcomes.items() if k not in failed}

    try:
        return jax.jit(of_all)(calls) | errors
    except Exception:  # one can be traced, but not compiled
        exact = jax.jit(function)
        return {key: outcome(exact, args) for key, args in calls.items()}


def by_turns(cases):
    """Pair each case with one policy in turn, where the policy should not matter.

    Sizes are padded from the second one on (None), or from the first ("pad").
    """
    return [*zip(cases, itertools.cycle((None, "pad")), strict=False)]


def compare(function, words, sizes=SIZES, rtol=2e-5, may_raise=True, **options):
    """Require agreement with `jax.jit`; return the compiled function for its stats."""
    ours, theirs = graphc.jit(function, **options), jax.jit(function)
    for n in sizes:
        args = arguments(words, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, wanted = outcome(ours, args), outcome(theirs, args)
        if isinstance(wanted, Exception) and not may_raise:
            raise wanted
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted), (n, found, wanted)
            continue
        if isinstance(found, Exception):
            raise found
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        leaves = jax.tree.leaves_with_path(found)
        for (path, a), b in zip(leaves, jax.tree.leaves(wanted), strict=True):
            where = f"n = {n}, {jax.tree_util.keystr(path)}"
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype and a.shape == b.shape, (where, a, b)
            small = a.dtype.name in ("float16", "bfloat16")
            near = 1e-2 if small else rtol
            a, b = (v.astype("float32") if small else v for v in (a, b))
            np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=where)
    return ours


def compare_together(rows, sizes=SIZES, may_raise=False, **options):
    """Compare functions, with their arguments, as one program, which saves time."""
    functions = {name: function for name, (function, _) in rows.items()}
    counts = [len(words) for _, words in rows.values()]

    def all_results(*args):
        left = iter(args)
        parts = [[*itertools.islice(left, count)] for count in counts]
        pairs = zip(functions.items(), parts, strict=True)
        return {name: function(*part) for (name, function), part in pairs}

    words = [word for _, words in rows.values() for word in words]
    return compare(all_results, words, sizes, may_raise=may_raise, **options)


def same(results, expected, rtol=1e-6):
    """Require JAX's results: structure, types, and values up to rounding."""
    assert jax.tree.structure(results) == jax.tree.structure(expected)
    pairs = zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True)
    for a, b in pairs:
        assert isinstance(a, jax.Array)
        assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
        np.testing.assert_allclose(a, b, rtol=rtol)


def vector(n):
    """A vector of size `n`."""
    return np.arange(n, dtype="float32") / 8 + 0.5


def agrees(function, sizes=SEVERAL_SIZES, **options):
    """Compile a function, require JAX's result at each size, and return it."""
    ours, calls = graphc.jit(function, **options), {n: (vector(n),) for n in sizes}
    results = [(n, ours(*calls[n])) for n in sizes]
    expected = outcomes_by_jax(function, calls)
    for n, found in results:
        same(found, expected[n])
    return ours
