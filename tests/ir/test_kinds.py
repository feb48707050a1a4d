"""Params have the kinds that ops declare, and no text that people write becomes code.

`GRAPHC_EXAMPLES=100000 pytest tests/ir/test_kinds.py` tries that many changed texts.
"""

import ast
import inspect
import os
import pathlib
import random
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import Data
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.op import PRIMITIVES, Opaque
from graphc.ir.params.kinds import ParamKinds, Text, is_record, kind_of
from graphc.ir.sizes.dims import Dim, axis
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph
from graphc.ir.types import TensorType
from tests.ir.hostile import PIECES, canary, mutated, outcome, quoted, seeds, spliced

EXAMPLES = int(os.environ.get("GRAPHC_EXAMPLES", "200"))
DECLARED = [
    (primitive, parameter.name, parameter.annotation)
    for primitive in PRIMITIVES.values()
    for parameter in inspect.signature(primitive.infer).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY
]


class Word(str):
    """A string that equals a word but prints as something else."""

    def __repr__(self):
        return PIECES[0]

    __str__ = __format__ = __repr__


class Number(int):
    """An integer that prints as something else."""

    def __repr__(self):
        return PIECES[0]

    __str__ = __format__ = __repr__


HOSTILE = [
    *PIECES,
    *(2**63, -(2**63) - 1, 10**30, 10**5000, 1j, b"0", np.int64(0), np.str_("set")),
    *(np.bool_(True), Number(0), Word("set"), Word("ij->ij"), [], [0], {}, {0}, id),
    *(len, int, "float32", np.float32, np.dtype(">f4"), np.dtype("S3"), slice(0, 1)),
    *(((((0,),),),), ("0", 0), (PIECES[0],), (Number(0),), (None, PIECES[0])),
    *((10**30,), Ellipsis, np.zeros(2), float("nan"), range(2), 2.5),
]


def fitting(annotation: Any) -> Any:
    """Make a value of the kind that an annotation declares."""
    known = {int: 0, bool: False, float: 1.0, Dim: axis("n"), int | Dim: 1, None: None}
    known |= {Text: Text("t"), Opaque: Opaque("o", None), Data: Data(np.zeros(1))}
    dtype = np.dtype("int32")
    known |= {np.dtype[Any]: dtype, TensorType: TensorType(dtype, ())}
    if annotation in known:
        return known[annotation]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return args[0]
    if origin is tuple:
        return () if args[-1] is Ellipsis else tuple(map(fitting, args))
    if is_record(annotation):
        return annotation(*map(fitting, get_type_hints(annotation).values()))
    if args and args[0] is str:
        return next(t for t in ("", "->") if kind_of(annotation).allows(t))
    if args and args[0] is int:
        return 0
    return annotation() if isinstance(annotation, type) else fitting(args[0])


def params_of(primitive: Any) -> dict[str, Any]:
    """Make params of the right kinds, which need not fit any inputs."""
    return {name: fitting(kind) for p, name, kind in DECLARED if p is primitive}


def test_every_primitive_and_every_param_refuse_what_is_of_another_kind():
    """The error names op and param; values of the right kind reach the rule."""
    tried = 0
    for primitive, name, annotation in DECLARED:
        params, kind = params_of(primitive), kind_of(annotation)
        assert kind.allows(params[name]), (primitive, name)
        for value in HOSTILE:
            if not kind.allows(value):
                tried += 1
                with pytest.raises(graphc.GraphError) as info:
                    primitive.bind((), params | {name: value})
                said = f"{primitive.name}: the param {name} is "
                assert str(info.value).startswith(said), info.value
    assert tried > 12_000


def test_what_is_of_a_kind_is_inert():
    """Whatever a rule does with a param, it is no string, or a harmless one."""
    allowed = [(kind_of(a), v) for _, _, a in DECLARED for v in HOSTILE]
    kept = {id(v): v for kind, v in allowed if kind.allows(v)}
    assert len(kept) < 6
    for value in kept.values():
        assert type(value) in (float, tuple, np.dtype, str)
        assert PIECES[0] not in f"{value} {value!r}"


IN_TEXT = [
    *(quoted(piece) for piece in PIECES[::4]),
    *("9223372036854775808", "1e999", "((((0,),),),)", "float32[3](1, 2, 3)", "-n"),
    *("None", "inf", "(0, None)", '("0", 0)', "(float32,)"),
]


def test_every_param_of_every_primitive_is_checked_in_text():
    """Few params alone make a node; if one does, the node is of that op."""
    taken = set()
    for primitive, name, _ in DECLARED:
        for text in IN_TEXT:
            source = (
                "graph(x: float32[n]) {\n"
                f"  y: float32[n] = {primitive.name}(x; {name}={text})\n"
                "  return y\n}\n"
            )
            try:
                parse_graph(source)
            except graphc.GraphError as error:
                assert str(error).startswith("parse_graph: line 2: "), error
            else:
                taken.add(f"{primitive.name} {name}")
    assert taken == {"debug_print text"}
    assert not canary


def test_a_refusal_says_op_param_what_was_got_and_what_is_allowed():
    x = gt.tensor("x", "float32", ("n", 3))
    place = " at " + str(pathlib.Path(__file__))
    for op, params, message in [
        ("qr", {"mode": "r'"}, 'the param mode is "r\'" of type str, but must be '
         '"reduced" or "complete" or "r" or "raw"'),
        ("sum", {"axes": (2,), "keepdims": False}, "the param axes is (2,) of type "
         "tuple, but must be an axis below 2, of float32[n, 3]"),
        ("sum", {"axes": (0,)}, "the param keepdims is missing"),
        ("sum", {"axes": (0,), "keepdims": False, "how": 1}, "there is no param 'how', "
         "only axes, keepdims"),
        ("tanh", {"axis": 0}, "there is no param 'axis', nor any other"),
        ("jn", {"n": 10**5000}, "the param n is an integer of 16610 bits of type int, "
         "but must be an integer"),
        ("reshape", {"shape": (Number(2),)}, "the param shape is "
         f"({PIECES[0]},) of type tuple, but must be a tuple in which each item is a "
         "size"),
    ]:
        with pytest.raises(graphc.GraphError) as info:
            PRIMITIVES[op](x, **params)
        first, second = str(info.value).split("\n ", 1)
        assert first == f"{op}: {message}"
        assert second.startswith(place)
    assert PRIMITIVES["sum"](x, keepdims=False, axes=(0,)) is gt.sum(x, axis=0)


def test_what_has_no_kind_is_an_error_where_an_op_is_declared():
    def text(x, *, mode: str): ...
    def any_params(x, **params: int): ...
    def bare(x, *, mode): ...
    def listed(x, *, sizes: list[int]): ...
    def code(x, *, mode: Literal["min", "f(1)"]): ...

    for rule in (text, any_params, bare, listed, code):
        with pytest.raises(TypeError, match=r"^new: the (param|rule)"):
            ParamKinds("new", rule)


def test_a_text_goes_into_no_string():
    message = Text(PIECES[0])
    for formatted in (str, "{}".format, lambda m: f"{m}", lambda m: f"{m:>3}"):
        with pytest.raises(TypeError, match="a text is not formatted"):
            formatted(message)
    with pytest.raises(TypeError):
        "".join([message])
    assert repr(message) == f"Text({PIECES[0]!r})"


RAN = [
    ("jn", "float64[n]", "n", "float64[n]"),
    ("kn", "float64[n]", "n", "float64[n]"),
    ("fftshift", "float64[n]", "back=False, axes", "float64[n]"),
    ("recurrence", "float64[n]", "reverse=False, axis", "float64[n]"),
    ("qr", "float64[n, n]", "mode", "float64[n, n]"),
    ("fft", "complex64[n]", 'kind="fft", sizes=(n,), axes=(0,), norm', "complex64[n]"),
]


@pytest.mark.parametrize(("op", "takes", "params", "gives"), RAN)
def test_what_once_ran_from_a_text_is_refused(op, takes, params, gives):
    for piece in PIECES:
        text = (
            f"graph(x: {takes}) {{\n"
            f"  y: {gives} = {op}(x; {params}={quoted(piece)})\n"
            "  return y\n}\n"
        )
        with pytest.raises(graphc.GraphError, match=f"line 2: {op}: the param "):
            parse_graph(text)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("piece", PIECES)
def test_names_and_messages_stay_strings_in_what_is_emitted(piece, backend):
    """Names of axes, inputs and outputs; messages; printed texts; varying sizes."""
    x = gt.tensor(piece, "float32", (axis(piece), axis(f"{piece}2")))
    y = gt.assert_(gt.any(x > 0), piece, x[: x.shape[1]].T + x[0, 0])
    shown = gt.debug_print(piece.replace("{", "{{"), gt.sum(y))
    rows = gt.sum(gt.specify_shape(x, (axis(piece), axis(piece))))
    outputs = {piece: y, "b": [shown, rows, x[:, 0][x[:, 0] > 0]]}
    for dims in ("specialize", "pad"):
        if dims == "pad":
            outputs = {piece: rows}
        program = graphc.function([x], outputs, backend=backend, dims=dims)
        assert not spliced(program.source)
    text = to_text(Graph((x,), (y,), (piece,), (piece,)))
    assert outcome(text, backend) == "program"
    assert not canary


@pytest.mark.parametrize("size", ["-1", "9223372036854775808", f"{'9' * 4000}*9"])
def test_sizes_in_texts_are_those_that_axes_can_have(size):
    text = f"graph(k: int64[],\nx: float64[{size}]) {{\n  return x\n}}\n"
    with pytest.raises(graphc.GraphError) as info:
        parse_graph(text)
    said = str(info.value).split("\n")[0]
    assert said == "parse_graph: line 2: an axis has 0 to 2**63 - 1 elements"


def test_names_stay_readable():
    x = gt.tensor("x", "float32", (axis('"""\nexec("harm")\n#'), 3))
    source = graphc.function([x], gt.sum(x, axis=1), backend="numpy").source
    shown = "(float32[_exec_harm_, 3]) -> (float32[_exec_harm_])"
    assert source.splitlines()[0] == f'"""A NumPy program: {shown}."""'


def rules_of_emission():
    """Yield the functions that take a `Printing`, with their files."""
    root = pathlib.Path(graphc.__file__).parent
    folders = ("ops", "control", "transform")
    for path in sorted(p for folder in folders for p in root.glob(f"{folder}/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                given = [a.annotation for a in node.args.args if a.annotation]
                if "Printing" in map(ast.unparse, given):
                    yield path.name, node


def test_rules_of_emission_take_no_text_but_from_params():
    """Only the backends may use users' names and lines, as they make them harmless."""
    found = 0
    for file, function in rules_of_emission():
        found += 1
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute):
                read = ast.unparse(node)
                assert node.attr not in ("place", "asking", "symbol"), read
                if node.attr == "name":
                    names = (
                        *("primitive.name", "dtype.name", "content.name"),
                        "content.function.name",  # its module makes this one harmless
                    )
                    assert read.endswith(names), (file, read)
                if node.attr == "content":
                    graphs = "body", "branches"
                    functions = "params['function']", "params['call']"
                    assert any(k in read for k in (*graphs, *functions)), (file, read)
    assert found > 80


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(seeds()))
def test_changed_texts_run_nothing_and_are_refused_with_their_line(rng, text):
    backend = "jax" if rng.random() < 0.1 else "numpy"
    outcome(mutated(text, rng), backend)


def test_changed_texts_become_programs_often_enough():
    """If they didn't, the test above would only exercise the reader."""
    rng = random.Random(0)
    found = [outcome(mutated(rng.choice(seeds()), rng), "numpy") for _ in range(100)]
    assert found.count("program") > 8
    assert found.count("refused") > 30
