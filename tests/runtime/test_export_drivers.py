"""Models with a driver: padded, of several programs, with sizes that are read."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import Bound, Pad
from graphc_serving.kinds import Kind
from graphc_serving.ufuncs import result_of
from tests.runtime.test_export import exact, exported, message, remade, same

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float32", ("n",))
Y = gt.tensor("y", "float32", ("m",))
K = gt.tensor("k", "int32", ())
PAIR = gt.tensor("pair", "int64", (2,))
POSITIVE = X[X > 0]
COUNT = POSITIVE.shape[0]
TABLE = gt.asarray(np.linspace(0, 1, 500, dtype="float32"))


def row(n):
    return np.arange(-2, n - 2).astype("float32")


def agree(f, m, *calls):
    for args in calls:
        same(m(*args), f(*args))


@pytest.fixture(scope="module")
def padded(tmp_path_factory):
    """A function with two padded axes and one specialized axis, and its model."""
    w = gt.tensor("w", "float32", ("n", "k"))
    outputs = {"sums": gt.sum(w, 0), "rows": gt.exp(X) + Y[0], "both": (X, X.shape[0])}
    policies = {"n": Pad(multiple=4), "m": Pad(), "k": "specialize"}
    f = graphc.function([X, Y, w], outputs, dims=policies)
    path = tmp_path_factory.mktemp("padded")
    m = exported(f, path, {"n": [3, 8, 3], "m": [2, 2, 20], "k": [1, 2, 2]})
    return f, m


def test_a_padded_model_serves_what_has_room(padded):
    f, m = padded
    assert m.shapes[1] == ((8,), (16,), (8, 2))
    for n, length, k in [(3, 2, 1), (0, 1, 1), (4, 16, 1), (6, 5, 2), (2, 17, 2)]:
        given = row(n), row(length), np.ones((n, k), "float32")
        agree(f, m, given, tuple(map(jnp.asarray, given)))


def test_what_a_padded_model_has_no_room_for(padded):
    _, m = padded
    for n, length, k in [(5, 2, 1), (8, 17, 2), (1, 1, 3)]:
        ask = lambda: m(row(n), row(length), np.ones((n, k), "float32"))  # noqa: B023
        text = message(graphc.ModelError, ask)
        served = "expected: shapes that fit into one of ((4,), (16,), (4, 1)), ((8,)"
        assert served in text
    text = message(
        graphc.ModelError, lambda: m(row(3), row(3), np.ones((2, 1), "float32"))
    )
    assert text == (
        "axis 0 of input w must have n elements; got 3 and 2\n"
        "  got: shapes ((3,), (3,), (2, 1))"
    )


def test_results_are_no_views_of_arguments(padded):
    _, m = padded
    x = row(4)
    found = m(x, row(1), np.ones((4, 1), "float32"))["both"][0]
    x[:] = 9
    assert found.tolist() == row(4).tolist()


READS = {
    "specialize": ({"n": [4, 5, 5], "POSITIVE_count": [1, 2, 0]}, [1, 2, 0]),
    "pad": ({"n": [4, 20], "POSITIVE_count": [16, 17]}, [0, 3, 4]),
}


@pytest.mark.parametrize("dims", READS)
def test_sizes_that_are_read_choose_programs(tmp_path, dims):
    sizes, counts = READS[dims]
    outputs = [POSITIVE * 2, gt.sum(X) + TABLE[COUNT:], COUNT, TABLE, X]
    f = graphc.function([X], outputs, dims=dict.fromkeys(sizes, dims))
    m = exported(f, tmp_path, sizes)
    for n, count in zip((4, 5, 5), counts, strict=True):
        agree(f, m, ((np.arange(n) < count).astype("float32"),))
    text = message(graphc.ModelError, lambda: m(np.ones(40, "float32")))
    assert "got: shapes ((40,),)" in text
    if dims == "pad":
        assert m.sizes == [{"POSITIVE_count": 16}, {"POSITIVE_count": 32}]
        assert m.shapes == [((16,),), ((32,),)]
    else:
        text = message(graphc.ModelError, lambda: m(np.ones(5, "float32")))
        assert "got: shapes ((5,),) with POSITIVE_count = 5\n" in text


def test_bounds_need_no_sizes_of_data(tmp_path):
    dims = {"n": Pad(buckets=(3, 9)), COUNT: Bound()}
    f = graphc.function([X], [gt.sort(POSITIVE), COUNT // 2], dims=dims)
    m = exported(f, tmp_path, {"n": [1, 4]})
    agree(f, m, (row(0),), (row(3),), (row(9),))
    f.export(tmp_path / "other", {"n": 4})
    assert len(graphc.load(tmp_path / "other").shapes) == 1
    ask = lambda: f.export(tmp_path / "more", {"n": 10})
    assert "no bucket has room for 10" in message(graphc.CallError, ask)
    assert not (tmp_path / "more").exists()


def test_integers_among_the_arguments_are_sizes(tmp_path):
    z = gt.tensor("z", "float32", (2 * X.shape[0] + 1,))
    long = gt.tensor("long", "int64", ())
    f = exact([z, K, long], [gt.arange(K // 2) + gt.sum(z), z[:long]])
    m = exported(f, tmp_path, {"n": [1, 2], "k": [4, 7], "long": [1, 2]})
    agree(f, m, (row(3), 4, np.int64(1)), (row(5), 7, np.int64(2)))


def test_checks_are_made(tmp_path):
    picked = gt.take(TABLE, gt.astype(X, "int32"))
    held = gt.assert_(gt.sum(X) > 0, "must be positive", X)
    f = graphc.function([X], [picked, held], dims="pad", check=True)
    m = exported(f, tmp_path, {"n": 4})
    agree(f, m, (np.ones(3, "float32"),))
    for x, problem in [(-1, "must be positive"), (500, "out of bounds")]:
        ask = lambda: m(np.full(2, x, "float32"))  # noqa: B023
        text = message(graphc.ModelError, ask)
        assert problem in text and text.endswith("\n  got: shapes ((2,),)")
        assert "500" in text or x < 0


def test_a_check_of_what_is_checked_already(tmp_path):
    known = gt.assert_(gt.all(PAIR >= 0), "below 0", PAIR)
    f = exact([PAIR], gt.assert_(known[0] <= known[1], "falls", known) * 2)
    m = exported(f, tmp_path, {})
    agree(f, m, (np.array([1, 2]),))
    for pair, problem in ([-1, 2], "below 0"), ([2, 1], "falls"):
        assert problem in message(graphc.ModelError, lambda: m(np.array(pair)))  # noqa: B023


LONG = gt.tensor("long", "int64", ())
ON_HOST = {
    "a product": (LONG * X.shape[0] + 1, {"n": [2, 3], "long": [1, 2]}),
    "a choice": (gt.where(LONG > 1, LONG, abs(LONG - 9) % 5), {"n": 2, "long": [1, 2]}),
    "a float": (gt.astype(gt.floor(LONG * 1.5), "int64"), {"n": 2, "long": [1, 2]}),
    "of a vector": (PAIR[0] * PAIR[1], {"n": 2, "long": 1, "multiply": [1, 2]}),
}


@pytest.mark.parametrize("kind", ON_HOST)
def test_arithmetic_on_the_host(tmp_path, kind):
    size, sizes = ON_HOST[kind]
    f = exact([X, LONG, PAIR], [gt.full((size,), gt.sum(X)), size])
    m = exported(f, tmp_path, sizes)
    ns = sizes["n"] if isinstance(sizes["n"], list) else [2, 2]
    for n, long in zip(ns, (1, 2), strict=True):
        agree(f, m, (row(n), np.int64(long), np.array([1, long])))
    ask = lambda: m(row(2), np.int64(7), np.array([7, 1]))
    assert "= 1" in (text := message(graphc.ModelError, ask)) or "= 7" in text


Z = gt.tensor("z", "float32", ())
LAST, POWERS = gt.while_loop(
    lambda p: p < Z, lambda p: (2 * p, (p, gt.stack([p, -p]))), Z * 0 + 1, collect=True
)


@pytest.fixture(scope="module")
def growing(tmp_path_factory):
    """A function with a loop that runs in pieces, and its model."""
    f = graphc.function([Z], [LAST, POWERS, gt.exp(-POWERS[0])])
    path = tmp_path_factory.mktemp("growing")
    m = exported(f, path, {"steps": [0, 3, 16, 17, 60]})
    return f, m, path / "model"


def test_a_loop_that_runs_in_pieces(growing):
    f, m, _ = growing
    for steps in (0, 3, 16, 17, 60):  # none, one piece, just that, two, and three
        agree(f, m, (np.float32(0.75 * 2**steps if steps else 0.5),))


def test_a_number_of_steps_that_was_not_exported(growing):
    _, m, _ = growing
    for steps, told in ((4, 4), (80, 64)):  # pieces exist, or do not
        z = np.float32(0.75 * 2.0**steps)
        text = message(graphc.ModelError, lambda: m(z))  # noqa: B023
        assert f"got: shapes ((),) with steps = {told}\n" in text


def test_what_no_step_can_say(tmp_path):
    f = exact([X], gt.special.jv(X, X))
    text = message(graphc.GraphError, lambda: f.export(tmp_path / "model", {"n": 2}))
    assert text == (
        "export: a step between the programs cannot be stored in a file: jv on the "
        "host\n"
        "  got: jv runs in NumPy: JAX has no Bessel functions of real order\n"
        "  hint: f.save(path) writes a program that runs without graphc"
    )


BAD_STEPS = {
    "no list": ("axis", "'axis' is not of type list"),
    "no word": (["exec", "1"], "'exec' is unknown"),
    "other parts": (["axis", 0], "the step axis has 2 parts"),
    "no array": (["axis", 99, 0], "99 is not an array"),
    "an integer": (["axis", "first", 0], "is not an array"),
    "no axis": (["axis", 0, 1], "there is no such axis"),
    "no integer": (["sum", [[1, [0]]]], "0 is not an integer"),
    "later": (["sum", [[1, [99]]]], "99 is not an integer"),
    "a large factor": (["sum", [[2**63, []]]], "a factor has over 64 bits"),
    "many factors": (["sum", [[1, ["first"] * 65]]], "a term has many factors"),
    "no function": (["apply", "eval", []], "'eval' is unknown"),
    "no operands": (["apply", "max", []], "max takes a different number of operands"),
    "operands": (["apply", "//", [[]]], "// takes a different number of operands"),
    "a float": (["read", 0, "n", False], "only an integer can be read"),
    "no dtype": (["number", [], "float32"], "float32 is no int"),
    "no float": (["literal", "1.5x", "float64"], "hexadecimal floating-point"),
    "no dtype of floats": (["literal", "0x1p+0", "int64"], "'int64' is unknown"),
    "no ufunc": (["compute", "eval", [0]], "'eval' is unknown"),
    "a ufunc of two results": (["compute", "frexp", [0]], "'frexp' is unknown"),
    "a ufunc of two": (["compute", "add", [0]], "add takes 2 operands"),
    "no loop of a ufunc": (["compute", "gcd", [0, 0]], "gcd does not take float32 and"),
    "a power of arrays": (["compute", "power", [0, 0]], "power takes numbers alone"),
    "a complex number": (["cast", 0, "complex64"], "complex numbers are not cast"),
    "no row": (["capacities", [], [[]], [[1, 2]]], "a row has another length"),
    "a rank": (["cut", 0, []], "it has another rank"),
    "a relation": (["check", [], "or", [], ""], "'or' is unknown"),
    "a condition": (["require", 0, [""]], "a condition has no numbers"),
    "no stage": (["run", 9, [], []], "there is no stage 9"),
    "arguments": (["run", 0, [], []], "stage 0 has other arguments"),
    "rows": (["rows", 9, []], "9 is not an array"),
    "no loop": (["grow", 0, [0], [], 1, "n"], "stage 0 has other arguments"),
}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The content of a model file with a driver."""
    path = tmp_path_factory.mktemp("content") / "model"
    graphc.function([X], X * 2, dims="pad").export(path, {"n": 3})
    return path.read_bytes()


def steps_of(content):
    found = []
    remade(content, lambda manifest, _: found.extend(manifest["steps"]))
    return found


@pytest.mark.parametrize("kind", BAD_STEPS)
def test_a_step_that_is_none(tmp_path, content, kind):
    bad, problem = BAD_STEPS[kind]
    given = steps_of(content)
    assert given[0] == ["axis", 0, 0]  # the first integer is 1
    text = json.dumps(bad).replace('"first"', "1")

    def change(manifest, _):
        manifest["steps"] = [given[0], json.loads(text)]

    path = tmp_path / "model"
    path.write_bytes(remade(content, change))
    found = message(graphc.ModelError, lambda: graphc.load(path))
    assert "its manifest is malformed" in found and problem in found


def test_integers_of_python_have_64_bits():
    assert result_of("power", [Kind("int64", 0)] * 2) == "int64"
    for name, dtype in (("power", "int32"), ("shift", "int8"), ("shift", "uint64")):
        with pytest.raises(ValueError, match=f"{name} takes numbers alone, of .*int64"):
            result_of(name, [Kind(dtype, 0)] * 2)


FAILING = {
    "a size is divided by zero": ["apply", "//", [[[1, []]], []]],
    "a size has more than 64 bits": ["sum", [[2**62, []]] * 2],
    "-1 does not fit uint8": ["number", [[-1, []]], "uint8"],
}


@pytest.mark.parametrize("problem", FAILING)
def test_a_step_that_fails(tmp_path, content, problem):
    def change(manifest, _):
        manifest["steps"].append(FAILING[problem])

    path = tmp_path / "model"
    path.write_bytes(remade(content, change))
    m = graphc.load(path)
    assert message(graphc.ModelError, lambda: m(row(2))) == (
        f"{problem}\n  got: shapes ((2,),)"
    )


LOOPS = {
    "of no carries": (4, 0),
    "of all that there is": (4, 9),
    "of other arrays": (2, None),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_in_pieces_that_is_none(tmp_path, growing, kind):
    """The number of carries and the arrays must match."""
    path, (part, value) = tmp_path / "model", LOOPS[kind]
    whole = growing[2].read_bytes()

    def change(manifest, _):
        (step,) = [s for s in manifest["steps"] if s[0] == "grow"]
        step[part] = step[part][::-1] if value is None else value

    path.write_bytes(remade(whole, change))
    text = message(graphc.ModelError, lambda: graphc.load(path))
    assert "its manifest is malformed: ValueError stage " in text
