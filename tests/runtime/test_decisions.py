"""SavedDecisions carry over: a process starts where the last one ended."""

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import GraphError, SavedDecisions

SIZES = 10, 20, 40, 12


def vector(n):
    return np.arange(n, dtype="float32") - 3


def of_graph(**how):
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], [gt.nn.softmax(x), gt.sort(x[x > 0])], **how)


def of_jax(**how):
    def squashed(x):
        return jnp.tanh(x) * (2 if x.shape[0] % 2 == 0 else 3)

    return graphc.jit(squashed, **how)


def of_numpy(**how):
    def squashed(x):
        return np.tanh(x) + x.shape[0]

    return graphc.jit(squashed, frontend="numpy", **how)


@pytest.mark.parametrize("make", [of_graph, of_jax, of_numpy])
def test_the_next_process_compiles_what_the_last_one_ended_with(make, tmp_path):
    first = make()
    results = [first(vector(n)) for n in SIZES]
    first.decisions.save(tmp_path / "decisions.json")
    text = (tmp_path / "decisions.json").read_text()
    assert SavedDecisions.of_text(text) == first.decisions
    assert '"n": {"policy": "pad"' in text
    second = make(decisions=tmp_path / "decisions.json")
    for n, result in zip(SIZES, results, strict=True):
        for a, b in zip(result, second(vector(n)), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert len(second.stats().compilations) == 3 < len(first.stats().compilations)
    assert not second.stats().changes


def test_facts_are_told_in_the_file():
    f = of_jax()
    for n in SIZES:
        f(vector(n))
    (program,) = f.decisions.programs
    assert program.function.endswith("squashed")
    assert program.predicates[0].startswith("x.shape[0] % 2 == 0 (test_decisions.py:")
    assert program.compilations == len(f.stats().compilations) - 1


def test_files_of_several_processes_are_merged():
    a, b = of_graph(), of_graph()
    for n in SIZES:
        a(vector(n))
    b(vector(11))
    (program,) = b.decisions.merged(a.decisions).programs
    size = program.sizes["n"]
    assert size.policy == graphc.Pad()
    assert size.sizes == {10, 11} and size.capacities == {16, 32, 64}
    again = of_graph(decisions=[b.decisions, a.decisions])
    again(vector(12))
    assert again.plan.padded is not None


def test_what_users_say_holds_against_a_file():
    f = of_graph(dims="pad")
    f(vector(5))
    exact = of_graph(dims="specialize", decisions=f.decisions)
    exact(vector(5))
    assert exact.plan.padded is None


DAMAGED = {
    "": "damaged",
    "[]": "damaged",
    '{"format": "other 1"}': "not a file of decisions",
    '{"format": "graphc decisions 9", "programs": []}': "a newer graphc wrote it",
    '{"format": "graphc decisions 1", "programs": [{}]}': "damaged",
}


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_files_are_told(text, tmp_path):
    path = tmp_path / "decisions.json"
    path.write_text(text)
    with pytest.raises(GraphError, match=DAMAGED[text]) as caught:
        of_graph(decisions=path)
    assert "decisions.json" in str(caught.value)


def test_files_of_other_programs_are_told(tmp_path):
    f, g = of_graph(dims="pad"), of_jax(dims="pad")
    f(vector(5))
    for n in (4, 5, 6):
        g(vector(n))
    y = gt.tensor("y", "int32", ("m", 3))
    with pytest.raises(GraphError, match=r"another program\n.*\n.*y: int32\[m, 3\]"):
        graphc.function([y], gt.sum(y), decisions=f.decisions)
    with pytest.raises(GraphError, match="another function"):
        graphc.jit(jnp.tanh, decisions=g.decisions)
    with pytest.raises(GraphError, match="cannot be read"):
        of_graph(decisions=tmp_path / "none.json")
    with pytest.raises(GraphError, match="these are not decisions"):
        of_graph(decisions=3)
