"""Faults that `verify` finds, in graphs that no rule would have built."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import SIZE, as_size, variable
from graphc.ir.graph.nodes import SERIALS, Graph, Guard, Node, Value
from graphc.ir.graph.op import PRIMITIVES, Opaque, Primitive
from graphc.ir.graph.verify import verify
from graphc.ir.sizes.dims import axis
from graphc.ir.types import TensorType
from tests.fuzz.generator import generate


def graph(inputs, *outputs):
    names = tuple(v.name for v in inputs)
    return Graph(tuple(inputs), outputs, names, ("",) * len(outputs))


def says(g, *parts):
    with pytest.raises(graphc.GraphError) as info:
        verify(g)
    message = info.value.args[0]
    for part in parts:
        assert part in message, message
    return message


def float32(*shape):
    return TensorType(np.dtype("float32"), shape)


def x_of(*shape):
    return gt.tensor("x", "float32", shape)


def node(name, inputs, params, *types, guards=()):
    """Make a node as a faulty pass might: nothing is inferred."""
    return Node(PRIMITIVES[name], tuple(inputs), params, types, guards)


def test_what_rules_build_is_fine():
    x, k = x_of("n", 3), gt.iscalar("k")
    verify(graph([x, k], gt.sum(x[x[:, 0] > 0]), x[:k], x.shape[0] + 1))


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_are_fine(seed):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        program = generate(seed)
    outputs = [gt.asarray(known.symbolic) for known in program.made]
    verify(graph(program.inputs, *outputs))


def test_a_wrong_type():
    x = x_of("n", 3)
    bad = node("tanh", [x], {}, float32(axis("n"), 4))
    message = says(
        graph([x], gt.sin(bad.outputs[0])),
        "verify tanh: the recorded type does not follow from the inputs",
        "got: float32[n, 4]",
        "expected: float32[n, 3]",
        "test_verify.py:",
    )
    assert message.endswith("return Node(PRIMITIVES[name], tuple(inputs), params, "
                            "types, guards)")


def test_a_wrong_dtype_a_missing_output_and_lost_weakness():
    x = x_of("n", 3)
    bad = node("greater", [x, x], {}, float32(axis("n"), 3))
    says(graph([x], bad.outputs[0]), "got: float32[n, 3]", "expected: bool[n, 3]")
    bad = node("tanh", [x], {}, x.type, x.type)
    says(graph([x], bad.outputs[0]), "got: float32[n, 3], float32[n, 3]")
    n = as_size(x.shape[0])
    bad = node("size", [], {"size": n}, TensorType(SIZE, ()))
    says(graph([x], bad.outputs[0]), "got: int64[]", "expected: weak int64[]")


def test_inputs_that_do_not_fit():
    x, y = x_of(2, 3), gt.tensor("y", "float32", (4,))
    bad = node("add", [x, y], {}, float32(2, 3))
    says(
        graph([x, y], bad.outputs[0]),
        "verify add: it no longer fits its inputs: add: shapes do not broadcast: 3 and "
        "4 differ",
        "got: float32[2, 3], float32[4]",
    )


def test_guards_that_are_lost_or_made_up():
    x, y = x_of("n"), gt.tensor("y", "float32", ("m",))
    n, m = axis("n"), axis("m")
    bad = node("add", [x, y], {}, float32(n))
    says(
        graph([x, y], bad.outputs[0]),
        "verify add: the recorded guards do not follow from the inputs",
        "got: none",
        "expected: n == m (shapes do not broadcast)",
    )
    guard = Guard("==", n, m, "made up")
    bad = node("add", [x, x], {}, float32(n), guards=(guard,))
    says(graph([x, y], bad.outputs[0]), "got: n == m (made up)", "expected: none")


PARAMS = [
    ({"axes": [0], "keepdims": False}, "axes is [0] of type list"),
    ({"axes": (np.int64(0),), "keepdims": False}, "of type tuple"),
    ({"axes": (0,), "keepdims": np.bool_(False)}, "of type bool"),
    ({"axes": (0,), "keepdims": {}}, "keepdims is {} of type dict"),
    ({"axes": (2,), "keepdims": False}, "must be an axis below 2, of float32[n, 3]"),
    ({"keepdims": False, "axes": (0,)}, "got: keepdims, axes"),
    ({"axes": (0,)}, "the param keepdims is missing"),
    ({"axes": (0,), "keepdims": False, "more": 1}, "there is no param 'more', only"),
]


@pytest.mark.parametrize(("params", "part"), PARAMS)
def test_params_that_are_not_normal(params, part):
    x = x_of("n", 3)
    bad = node("sum", [x], params, float32(3))
    says(graph([x], bad.outputs[0]), "verify sum: ", part)


def test_an_operand_that_is_younger():
    x = x_of("n")
    late = node("tanh", [x], {}, x.type)
    early = node("sin", [late.outputs[0]], {}, x.type)
    late.serial = next(SERIALS)
    says(graph([x], early.outputs[0]), "verify sin: its operand <tanh: float32[n]> is",
         "not older than the node")


def test_a_cycle():
    x = x_of("n")
    first = node("tanh", [x], {}, x.type)
    second = node("sin", [first.outputs[0]], {}, x.type)
    first.inputs = second.outputs
    says(graph([x], second.outputs[0]), "verify tanh: its operand <sin: float32[n]> is")


def test_an_operand_that_its_node_does_not_know():
    x = x_of("n")
    foreign = Value(gt.tanh(x).node, 0, x.type)
    bad = node("sin", [foreign], {}, x.type)
    says(graph([x], bad.outputs[0]), "is not an output of its node")


def test_a_primitive_that_is_not_registered():
    x = x_of("n")
    known = PRIMITIVES.pop("tanh")
    try:
        other = Primitive("tanh", known.infer)
    finally:
        PRIMITIVES["tanh"] = known
    bad = Node(other, (x,), {}, (x.type,))
    says(graph([x], bad.outputs[0]), "verify tanh: its primitive is not a registered")


def test_inputs_of_the_graph():
    x, y = x_of("n"), gt.tensor("y", "float32", ("n",))
    says(graph([x], x + y), "verify input: the variable 'y' is not an input of the")
    says(Graph((x, x), (), ("x", "y"), ()), "verify: the same variable is given twice")
    says(Graph((x, y), (), ("x", "x"), ()), "the same input name is given twice")
    says(Graph((x, y), (x,), ("x",), ("",)), "verify: 2 inputs have 1 names")
    says(Graph((x,), (x,), ("x",), ()), "verify: 1 outputs have 0 names")
    says(Graph((gt.tanh(x),), (), ("x",), ()), "an input of the graph is not a var")
    k = gt.iscalar("k")
    z = variable("z", float32(as_size(k)))
    says(graph([k, z], z), "verify input: an axis of a variable has a size that is a",
         "got: float32[k]")


def with_body(change):
    """A scan whose first body output is replaced by `change` of body and variable."""
    x, m = x_of("n"), gt.tensor("m", "float32", ("m",))
    c, _ = gt.scan(lambda c, v: (c + v * gt.sum(gt.full((7,), v)), None), 0.0, x)
    body = c.node.params["body"].content
    outputs = (change(body, m), *body.outputs[1:])
    params = dict(c.node.params, body=Opaque("body", replace(body, outputs=outputs)))
    return graph([x, m], c.node.primitive.bind(c.node.inputs, params).outputs[0])


def test_a_body_with_a_size_from_outside():
    g = with_body(lambda body, m: gt.sum(gt.full(m.shape, body.inputs[0])))
    says(g, "verify full: the size m in a body is not the body's own", "float32[m]")


def test_a_body_with_a_value_from_outside():
    g = with_body(lambda body, m: body.inputs[0] + gt.sum(m))
    says(g, "verify input: the variable 'm' is not an input of the body")


def test_a_node_of_a_body_that_is_wrong():
    wrong = lambda c, m: node("sin", [c], {}, float32(3)).outputs[0][0]  # noqa: E731
    g = with_body(lambda body, m: wrong(body.inputs[0], m))
    says(g, "verify sin: the recorded type does not follow from the inputs")


def test_an_input_of_a_body_that_is_given_twice():
    x = x_of("n")
    c, _ = gt.scan(lambda c, v: (c + v, None), 0.0, x)
    body = c.node.params["body"].content
    twice = replace(body, inputs=(body.inputs[0], body.inputs[0]))
    params = dict(c.node.params, body=Opaque("body", twice))
    made = c.node.primitive.bind(c.node.inputs, params).outputs[0]
    says(graph([x], made), "the same input of a body is given twice")
