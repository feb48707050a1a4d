"""Shapes of variables given as one text, with a word for each axis."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("n d", ("n", "d")),
        ("n+1 d", ("n + 1", "d")),
        ("n 3", ("n", "3")),
        ("n//2 n-m m", ("n//2", "n - m", "m")),
        ("n? 2*n", ("n?", "2*n")),
        ("2*n + 1", ("2*n + 1",)),
        ("n", ("n",)),
        ("()", ()),
    ],
)
def test_a_text_says_all_sizes(text, sizes):
    assert tuple(map(str, gt.tensor("x", "float32", text).type.shape)) == sizes


def test_relations_in_words_are_checked_at_calls():
    x, y = gt.tensor("x", "float64", "n+1 d"), gt.tensor("y", "float64", "n d")
    f = graphc.function([x, y], x[1:] * y, backend="numpy")
    assert f(np.ones((4, 2)), np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(graphc.CallError, match="not n \\+ 1 = 5"):
        f(np.ones((4, 2)), np.ones((4, 2)))


@pytest.mark.parametrize(
    ("text", "word"), [("n! d", "n!"), ("n d+", "d+"), ("", ""), ("n d.", "d.")]
)
def test_wrong_words_are_named(text, word):
    with pytest.raises(graphc.GraphError) as error:
        gt.tensor("x", "float32", text)
    first, hint, *_ = str(error.value).splitlines()
    assert first.startswith(f"tensor: cannot read the size {word!r}: ")
    assert hint == '  hint: give a name or a formula in names, such as "n" or "2*n + 1"'
