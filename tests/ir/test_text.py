"""The text form of graphs: its look, reading it back, and errors for bad text.

The text gives back the same graph, and errors name the line.
"""

import textwrap
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.verify import verify
from graphc.ir.sizes.dims import axis
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph
from tests.fuzz.generator import generate


def graph(inputs, *outputs, names=None):
    called = tuple(v.name for v in inputs)
    return Graph(tuple(inputs), outputs, called, names or ("",) * len(outputs))


def assert_round_trip(g):
    """Require that the text is stable, and rebuilds the same values from the inputs."""
    text = to_text(g)
    again = parse_graph(text)
    verify(again)
    assert to_text(again) == text
    assert again.input_names == g.input_names
    assert again.output_names == g.output_names
    same = parse_graph(text, g.inputs)
    assert all(a is b for a, b in zip(same.outputs, g.outputs, strict=True))
    return text


def test_what_it_looks_like():
    x = gt.tensor("x", "float32", ("n", 3))
    k = gt.iscalar("k")
    g = graph([x, k], gt.tanh(x)[:k] * 2.5, names=("rows",))
    assert assert_round_trip(g) == textwrap.dedent(
        """\
        graph(x: float32[n, 3], k: int64[]) {
          tanh: float32[n, 3] = tanh(x)
          basic_index: float32[clip(k, n), 3] = basic_index(tanh; kinds="s", \
starts=(None,), stops=(k,), steps=(None,))
          constant: float32[] = constant(; data=float32[](2.5), weak=False)
          multiply: float32[clip(k, n), 3] = multiply(basic_index, constant)
          return rows=multiply
        }
        """
    )


def test_many_inputs_have_a_line_each():
    inputs = [gt.tensor(f"weights_{i}", "float32", ("n", 3)) for i in range(5)]
    text = assert_round_trip(graph(inputs, *inputs))
    assert text.splitlines()[:3] == [
        "graph(",
        "    weights_0: float32[n, 3],",
        "    weights_1: float32[n, 3],",
    ]


def test_no_inputs_and_no_outputs():
    assert assert_round_trip(graph([])) == "graph() {\n  return \n}\n"
    assert_round_trip(graph([], gt.arange(5)))


def test_counts_and_computed_integers_are_written_with_the_names_of_values():
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    rows = x[x > 0]
    y = gt.concatenate([rows, gt.zeros(2 * k)])
    text = assert_round_trip(graph([x, k], y))
    assert "nonzero: int64[count_nonzero] = nonzero(greater; count=count" in text
    assert "float32[count_nonzero + 2*k] = concatenate(" in text


def test_axes_of_one_name_that_are_different():
    a, b = gt.vector("x"), gt.vector("x")
    g = Graph((a, b), (gt.concatenate([a, b]),), ("a", "b"), ("",))
    text = assert_round_trip(g)
    assert "a of \"x\": float32[?x_0], b of \"x\": float32[?x_0_1]" in text
    assert "float32[?x_0 + ?x_0_1] = concatenate(a, b; axis=0)" in text


def test_an_axis_gives_way_to_no_value():
    n = gt.iscalar("n")
    x = gt.tensor("x", "float32", ("n",))
    text = assert_round_trip(graph([n, x], x[:n]))
    assert text.startswith('graph(n_1 "n": int64[], x: float32[n]) {')
    assert "basic_index: float32[clip(n_1, n)]" in text


HOSTILE = [
    'x"; import os',
    "a\nreturn x }",
    "# comment",
    "\\",
    '"""',
    "return",
    "float32",
    "",
    "\ud800",
    "ｎ",
    "a: int64[] = size(; size=3)",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out(name):
    x = gt.tensor(name, "float32", (axis(name or "n"), None))
    y = gt.assert_(gt.any(x > 0), name, gt.sum(x, axis=0))
    g = Graph((x,), (y,), (name,), (name,))
    text = assert_round_trip(g)
    assert text.count("\n") == (10 if text.startswith("graph(\n") else 8)
    assert text.isascii()
    assert parse_graph(text).inputs[0].name == name


VALUES = [
    np.array(0.1, "float32"),
    np.array([0.1, -0.0, np.inf, -np.inf, np.nan], "float64"),
    np.array([1 / 3, 65504, 6e-8], "float16"),
    np.array([1 - 2j, complex(np.nan, -0.0)], "complex64"),
    np.array(True),
    np.array([[2**63 - 1], [-(2**63)]], "int64"),
    np.array(2**64 - 1, "uint64"),
    np.zeros((0, 3), "int8"),
    np.array([0x7FC00001], "uint32").view("float32"),  # a NaN with a payload
    np.arange(100, dtype="uint8"),
    np.array([0.1, 3e38]).astype("bfloat16"),
]


@pytest.mark.parametrize("array", VALUES, ids=lambda a: f"{a.dtype}{a.shape}")
def test_constants_keep_every_bit(array):
    assert_round_trip(graph([], constant(array), constant(array[..., None])))


def test_weak_numbers_stay_weak():
    x = gt.tensor("x", "float32", ("n",))
    text = assert_round_trip(graph([x], x.shape[0] + 1, x.shape[0] / 2))
    assert "  size: weak int64[] = size(; size=n + 1)\n" in text


def test_comments_tell_lines_and_guards_and_are_skipped():
    x, y = gt.tensor("x", "float32", ("n",)), gt.tensor("y", "float32", ("m",))
    g = graph([x, y], x + y)
    text = to_text(g, comments=True)
    assert "add: float32[n] = add(x, y)  # test_text.py:" in text
    assert text.splitlines()[1].endswith("; needs n == m")
    assert parse_graph(text, g.inputs).outputs[0] is g.outputs[0]


def test_what_is_read_has_its_line_of_text_as_place():
    x = gt.tensor("x", "float32", ("n",))
    again = parse_graph(to_text(graph([x], gt.exp(gt.sin(x)))))
    assert str(again.outputs[0].node.place) == "<graph>:3"


def test_deep_graphs():
    x = gt.tensor("x", "float32", ("n",))
    y = x
    for _ in range(3000):
        y = gt.sin(y)
    assert_round_trip(graph([x], y))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        program = generate(seed)
    outputs = [gt.asarray(known.symbolic) for known in program.made]
    g = graph(program.inputs, *outputs)
    verify(g)
    text = to_text(g)
    assert to_text(parse_graph(text)) == text


def sizes(names):
    atoms = st.sampled_from(names) | st.integers(-3, 4)

    def larger(inner):
        pair = st.tuples(inner, inner)
        divisor = st.integers(1, 5)
        return (
            pair.map(lambda p: p[0] + p[1])
            | pair.map(lambda p: p[0] * p[1])
            | pair.map(lambda p: p[0] - p[1])
            | st.tuples(inner, divisor).map(lambda p: p[0] // p[1])
            | st.tuples(inner, divisor).map(lambda p: p[0] % p[1])
            | pair.map(lambda p: graphc.ir.sizes.dims.minimum(*p))
            | pair.map(lambda p: graphc.ir.sizes.dims.maximum(*p))
        )

    return st.recursive(atoms, larger, max_leaves=6)


X = gt.tensor("x", "float32", ("n", "m"))
K = gt.iscalar("k")
COUNT = gt.count_nonzero(X)
INTEGERS = [axis("n"), axis("m"), *map(graphc.ir.graph.build.as_size, (K, COUNT))]


@settings(max_examples=200, deadline=None)
@given(sizes(INTEGERS))
@example(INTEGERS[2] - 3 * (INTEGERS[2] // 3) + INTEGERS[3] % 2)
def test_any_size(size):
    length = graphc.ir.sizes.dims.maximum(size, 0)
    assert_round_trip(graph([X, K], gt.zeros(length), COUNT))


# Bad text: what to replace in a good one, by what, and the message.

GOOD = """\
graph(x: float32[n, 3], k: int64[]) {
  tanh: float32[n, 3] = tanh(x)
  rows: float32[clip(k, n), 3] = basic_index(tanh; kinds="s", starts=(None,), \
stops=(k,), steps=(None,))
  c: float32[2] = constant(; data=float32[2](0.5, 1.0), weak=False)
  return rows, c
}
"""

BAD = [
    ("graph(x", "grph(x", "line 1: expected 'graph', not grph"),
    ("float32[n, 3], k", "float33[n, 3], k", "line 1: there is no dtype float33"),
    ("k: int64[]", "x: int64[]", "line 1: x cannot be defined here"),
    ("k: int64[]", "?k: int64[]", "line 1: ?k cannot be defined here"),
    (") {", ")", "line 2: expected '{', not tanh"),
    ("tanh(x)", "tanh(y)", "line 2: y is not defined yet"),
    ("tanh(x)", "tanh(x, x)", "line 2: tanh does not take these inputs and params"),
    ("tanh(x)", "tanh(x; axis=0)", "line 2: tanh: there is no param 'axis', nor"),
    ("tanh(x)", "tanh(k)", "line 2: tanh: these dtypes have no common loop"),
    ("tanh(x)", "sinhh(x)", "line 2: there is no op called sinhh"),
    ("tanh(x)", 'input(; name="y", type=float32[])', "line 2: there is no op called"),
    (
        "float32[n, 3] = tanh",
        "float32[n, 4] = tanh",
        "line 2: tanh gives float32[n, 3], where the text says float32[n, 4]",
    ),
    ("tanh: float32[n, 3]", "tanh, b: float32[n, 3]", "line 2: 2 names for the 1"),
    ("  tanh: ", "  x: ", "line 2: x cannot be defined here"),
    ("stops=(k,)", "stops=(rows,)", "line 3: basic_index gives float32[min(n, rows"),
    ("stops=(k,)", "stops=(tanh,)", "line 3: tanh is not an integer scalar"),
    ("stops=(k,)", "stops=(k // 0,)", "line 3: not a size:"),
    ("stops=(k,)", "stops=(min(),)", "line 3: not a size:"),
    ("stops=(k,)", "stops=(None + 1,)", "line 3: expected a size"),
    ("stops=(k,)", "stops=(True + 1,)", "line 3: expected a size"),
    ("stops=(k,)", "stops=((k)", "line 3: expected ')', not ="),
    ("stops=(k,)", "stops=" + "(" * 5000, "line 3: parentheses are nested too deeply"),
    ("stops=(k,)", "stops=" + "-" * 5000 + "k", "line 3: basic_index"),
    ("stops=(k,)", f"stops=({'9' * 5000},)", "line 3: this number is too long"),
    ("stops=(k,)", "stops=(k,), stops=(k,)", "line 3: stops is given twice"),
    ("stops=(k,)", "stops=__import__('os')", "line 3: expected"),
    ("stops=(k,)", "stops=(k.real,)", "line 3: expected"),
    ('kinds="s"', 'kinds="s', "line 3: expected a param"),
    ('kinds="s"', 'kinds="\\q"', "line 3: this quoted text cannot be decoded"),
    ('kinds="s"', 'kinds="ss"', "line 3: basic_index"),
    ("0.5, 1.0", "0.5", "line 4: cannot read the elements of float32[2]"),
    ("0.5, 1.0", "True, 1.0", "line 4: cannot read the elements of float32[2]"),
    ("0.5, 1.0", '"00"', "line 4: cannot read the elements of float32[2]"),
    ("0.5, 1.0", '"zz"', "line 4: cannot read the elements of float32[2]"),
    (
        "2](0.5, 1.0",
        "99999999999999](0.5",
        "line 4: cannot read the elements of float32[999",
    ),
    ("2](0.5, 1.0", "n](0.5", "line 4: cannot read the elements of float32[n]"),
    ("return rows, c", "return rows c", "line 5: expected '}', not c"),
    ("return rows, c", "return later", "line 5: later is not defined yet"),
    ("return rows, c", "", "line 6: expected a name or return, not }"),
    ("}\n", "}}\n", "line 6: nothing may follow the graph"),
    ("}\n", "", "line 6: expected '}', not the end"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_bad_text(old, new, message):
    assert to_text(parse_graph(GOOD))  # good until it is changed
    assert GOOD.count(old)
    with pytest.raises(graphc.GraphError) as info:
        parse_graph(GOOD.replace(old, new, 1))
    found = str(info.value)
    assert found.startswith("parse_graph: line ")
    assert message in found
    assert "test_text.py" in found


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_is_a_graph_or_a_graph_error(data):
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(start + 8, len(GOOD))))
    put = data.draw(st.text('xkn()[]{},:;=+-*/%"0123 \n#weak', max_size=6))
    try:
        verify(parse_graph(GOOD[:start] + put + GOOD[end:]))
    except graphc.GraphError as error:
        assert str(error)


def test_given_inputs_must_fit():
    x, k = gt.tensor("x", "float32", ("n", 4)), gt.iscalar("k")
    with pytest.raises(graphc.GraphError, match="line 1: x is float32.n, 3. here, but"):
        parse_graph(GOOD, [x, k])
    x = gt.tensor("x", "float32", ("n", 3))
    with pytest.raises(graphc.GraphError, match="line 1: 1 inputs are given, and none"):
        parse_graph(GOOD, [x])
    with pytest.raises(graphc.GraphError, match="line 1: 3 inputs are given, not 2"):
        parse_graph(GOOD, [x, k, k])


def test_a_variable_that_is_no_input_has_no_text():
    x, y = gt.vector("x"), gt.vector("y")
    with pytest.raises(graphc.GraphError, match="to_text: <y: .* does not come"):
        to_text(graph([x], x + y))
