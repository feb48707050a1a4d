"""Every sample, on both backends, with static and with symbolic sizes.

Values and dtypes must be NumPy's, and inferred types the actual ones.

On NumPy, every call is tried with every dtype at length. At CI size, this holds for the
usual dtype of a sample and static sizes. With symbolic sizes, and with other dtypes,
the most telling call is tried and the rest take turns: each call meets one or two
symbols and one other dtype. Tests of padding rules try all calls with symbols, too.
Compiling all of them for JAX would take long. There, the most telling call is tried for
float32 and, of every fourth sample, for one dtype of each kind; at length, every call
and dtype.
"""

import importlib
import os
import pathlib
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import tests.samples
from graphc.ir.graph.op import EMISSION, PRIMITIVES
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import FUNCTIONS
from tests.ops.sampling import Batch, Trial, arrays_in, close, problems
from tests.samples.spec import ALL, Call, Sample, a, call, sample

T = TypeVar("T")
AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
WHOLE = ("float32", "int32")  # at length, JAX compiles every call for these
FOLDER = pathlib.Path(__file__).parent.parent / "samples"
FAMILIES = {
    path.stem: importlib.import_module(f"tests.samples.{path.stem}").SAMPLES
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem not in ("spec", "__init__")
}
EVERY = [s for samples in FAMILIES.values() for s in samples]


def tried(samples: list[Sample]) -> list[str]:
    """The dtypes that the samples are tried with, the usual ones first."""
    found = {dtype for s in samples for dtype in s.dtypes}
    return sorted(found, key=lambda d: (d not in ALL, d))


def telling(given: Sample) -> Sample:
    """The sample with only the call that has the most special values."""

    def weight(one: Call) -> tuple[bool, int]:
        specs = arrays_in(one)
        special = any(s.values in ("special", "holes", "ties") for s in specs)
        return special, sum(int(np.prod(s.shape)) for s in specs)

    return replace(given, calls=(max(given.calls, key=weight),))


def usual(given: Sample) -> str:
    """The dtype with which all calls of a sample are tried."""
    return "float32" if "float32" in given.dtypes else given.dtypes[0]


def in_turn(given: Sample, turn: int, turns: int) -> Sample:
    """The sample with its most telling call and, by turns, a share of the others."""
    (first,) = telling(given).calls
    others = [c for c in given.calls if c is not first]
    return replace(given, calls=(first, *others[turn % turns :: turns]))


def share(items: Iterable[T], turn: int) -> list[T]:
    """Every second item at CI size; `turn` tells which, so that tests take turns."""
    return list(items) if AT_LENGTH else list(items)[turn % 2 :: 2]


# JAX need not compile these again: for float16, special functions have the programs of
# float32 with casts, and static sizes give the same programs as symbolic ones.
ALIKE = {("special", "float16"), ("special", "static")}
CASES = [(f, d) for f, samples in FAMILIES.items() for d in tried(samples)]


@pytest.mark.parametrize(("family", "dtype"), CASES)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_numpy_backend(family, dtype, symbolic):
    samples, turn = FAMILIES[family], CASES.index((family, dtype))
    if family == "random":  # each draw once, as its reference is compiled
        samples = share(share(samples, turn), symbolic)
    elif not AT_LENGTH:
        others = share([s for s in samples if usual(s) != dtype], turn + symbolic)
        samples = [s for s in samples if usual(s) == dtype]
        if symbolic:
            samples = [in_turn(s, turn, turns=3) for s in samples]
        samples += [in_turn(s, turn, turns=12) for s in others]
    found = problems(samples, dtype, "numpy", symbolic)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", WHOLE if AT_LENGTH else WHOLE[:1])
@pytest.mark.parametrize("family", FAMILIES)
def test_jax_backend(family, dtype):
    samples = FAMILIES[family]
    if not AT_LENGTH:
        samples = share(samples, 0)
        # Draws are compiled twice, since their references are, too. Special functions
        # are compared with SciPy's in `special/test_special.py`.
        samples = share(samples, 1) if family in ("random", "special") else samples
        samples = list(map(telling, samples))
    found = problems(samples, dtype, "jax", symbolic=True)
    assert not found, "\n".join(found)


KINDS = ("int32", "bool", "bfloat16", "complex64")
OTHER = [c for c in CASES if c not in ALIKE and c[1] != "float32"]
OTHER = [c for c in OTHER if (c[1] not in WHOLE if AT_LENGTH else c[1] in KINDS)]


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(("family", "dtype"), OTHER)
def test_jax_backend_with_other_dtypes(family, dtype):
    turn = CASES.index((family, dtype))
    samples = map(telling, share(share(FAMILIES[family], turn), turn // 2))
    found = problems(samples, dtype, "jax", symbolic=True)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("family", [f for f in FAMILIES if (f, "static") not in ALIKE])
def test_jax_backend_with_static_sizes(family):
    samples = FAMILIES[family]
    if not AT_LENGTH:  # the others are tried with symbolic sizes
        others = [s for s in samples if not s.static and family != "random"]
        samples = [s for s in samples if s.static] + share(others, 1)
    samples = [s if s.static else telling(s) for s in samples]
    found = problems(samples, "float32", "jax", symbolic=False)
    assert not found, "\n".join(found)


# Functions of functions are tried where bodies can be written.
OF_FUNCTIONS = {
    "scan": "test_loops.py",
    "while_loop": "test_branches.py",
    "fori_loop": "test_branches.py",
    "cond": "test_branches.py",
    "switch": "test_branches.py",
    "map": "test_branches.py",
    "scan_taps": "test_taps.py",
    "TensorArray": "test_tensor_array.py",
}


def test_functions_of_functions_are_tried_elsewhere():
    folder = FOLDER.parent / "transform" / "loops"
    for name, file in OF_FUNCTIONS.items():
        assert f"gt.{name}(" in (folder / file).read_text(encoding="utf-8"), name


def test_every_function_has_a_sample():
    public = {n for n in FUNCTIONS if not n.split(".")[-1].startswith("_")}
    missing = sorted(public - {s.name for s in EVERY} - OF_FUNCTIONS.keys())
    assert not missing, f"add a line to tests/samples for {', '.join(missing)}"


def test_every_sample_is_of_a_function():
    assert {s.name for s in EVERY} <= FUNCTIONS.keys()


# Only programs that gradients build have these; samples of no function do.
OF_GRADIENTS = {
    *("barrier", "max_pool_positions", "min_pool_positions", "recurrence"),
    *("cofactors", "expm_slope", "pinned", "unstretched"),
}
OF_OTHERS = {"foreign", "host_call"}  # only functions of other libraries have these
OF_OTHERS |= {f"jax_{n}" for n in ("digamma", "gammainc", "gammaincc", "zeta")}
OF_RULES = {"fused_attention"}  # made by rules for accelerators
# Programs have these, graphs do not.
OF_PLANS = {"bucket", "conv_within", "nonzero_within", "rows", "svd_within"}


def built(one, dtype, symbolic=False):
    """The batch of a sample's calls, and the primitives that occur in it."""
    batch = Batch(dtype, symbolic)
    for each in one.calls:
        batch.add(Trial(one, each, dtype, [], None))
    return batch, {node.primitive for node in ancestors(batch.outputs.values())}


def test_every_primitive_is_reached_by_a_sample():
    missing = {
        name
        for name, primitive in PRIMITIVES.items()
        if primitive.infer.__module__.startswith("graphc.ops.")
    }
    missing -= OF_GRADIENTS | OF_PLANS | OF_OTHERS | OF_RULES
    several = [one for one in EVERY if len(one.dtypes) > 1]
    for samples, which, symbolic in (
        (map(telling, EVERY), 0, False),
        (map(telling, several), -1, True),
        (several, -1, True),
        (map(telling, several), 1, False),
    ):
        for one in samples:
            if missing and not (symbolic and one.static):
                _, found = built(one, one.dtypes[which], symbolic)
                missing -= {primitive.name for primitive in found}
    assert not missing, f"no sample reaches {', '.join(sorted(missing))}"


REFUSED = [s for s in EVERY if s.refused]


@pytest.mark.parametrize("one", REFUSED, ids=lambda s: s.name)
def test_a_backend_alone_refuses_a_sample_with_its_reason(one):
    batch, _ = built(one, one.dtypes[0])
    used = ancestors(batch.outputs.values())
    inputs = [x for x in batch.inputs if x.node in used]  # refused calls have others
    for backend, reason in one.refused.items():
        with pytest.raises(graphc.GraphError, match=f"{backend} cannot run.*{reason}"):
            graphc.function(inputs, batch.outputs, backend=backend, jit=False)


def test_every_refusal_of_a_primitive_is_told_by_a_sample():
    told = {p.name for one in REFUSED for p in built(one, one.dtypes[0])[1]}
    refused = {p.name for table in EMISSION.values() for p in table.reasons}
    assert refused - OF_PLANS <= told


# Tests that this machinery finds mistakes.


def wrong(ours, numpy, *calls, dtype="float32", backend="numpy", **options):
    made = sample("sin", *(calls or [call(a(2, 3))]), ours=ours, numpy=numpy, **options)
    return "\n".join(problems([made], dtype, backend, symbolic=False))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_it_finds_wrong_values_dtypes_and_shapes(backend):
    assert not wrong(gt.sin, np.sin, backend=backend)
    assert "not [" in wrong(gt.sin, np.cos, backend=backend)
    cast = wrong(gt.sin, lambda x: np.sin(x).astype("float64"), backend=backend)
    assert "dtype float32, not float64" in cast
    shape = wrong(gt.sin, lambda x: np.sin(x)[0], backend=backend)
    assert "shape (2, 3), not (3,)" in shape


def test_it_finds_what_only_one_side_refuses():
    assert "is built, NumPy raises" in wrong(gt.sin, lambda x: np.sin(x, "no"))
    assert "raises gather: " in wrong(lambda x: gt.take(x, 0, axis=7), np.sin) or (
        "raises take: " in wrong(lambda x: gt.take(x, 0, axis=7), np.sin)
    )


def test_it_finds_one_wrong_call_among_many():
    calls = [call(a(n, 3)) for n in range(2, 9)]
    found = wrong(gt.sin, lambda x: np.cos(x) if len(x) == 5 else np.sin(x), *calls)
    assert found.count("sin(") == 1 and "sin(mixed[5, 3])" in found


def test_arrays_in_options_are_arguments_like_others():
    one = call(a(2, 3), other=a(2, 3, values="positive"))
    ours, other = (lambda x, other: gt.hypot(x, other)), lambda x, other: np.hypot(x, 0)
    assert not wrong(ours, lambda x, other: np.hypot(x, other), one)
    assert "sin(mixed[2, 3], other=positive[2, 3])" in wrong(ours, other, one)


def test_closeness():
    def near(x, y, dtype="float32", ulps=8):
        return close(np.array(x, dtype), np.array(y, dtype), ulps)

    assert near([1, np.nan, np.inf], [1, np.nan, np.inf])
    assert not near(1, np.nan) and not near(np.inf, 1e30) and not near(1e30, np.inf)
    assert near(1, 1 + 5e-7) and not near(1, 1 + 5e-6)
    assert near(1, 1 + 5e-6, ulps=64)
    assert not near(1e-12, 2e-12) and near([1, 1e-12], [1, 2e-12])
    assert not near(3, 4, "int8") and near(3, 3, "int8")


def test_samples_are_a_package_of_lines():
    assert tests.samples.__name__ == "tests.samples"
    assert all(isinstance(s, Sample) and s.calls for s in EVERY)
