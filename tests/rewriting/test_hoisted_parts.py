"""Reductions of parts of a scan's stacked rows, and of several rows at once."""

import pytest

import graphc
import graphc.tensor as gt
from tests.rewriting.test_hoisting import (
    WIDTH,
    agree,
    arrays,
    running,
    scans,
    several,
    variables,
)

PARTS = {
    "all but the first": lambda ys, t: gt.sum(ys[1:] * t[1:]),
    "all but the last": lambda ys, t: gt.max(ys[:-1], initial=-9.0),
    "the next input": lambda ys, t: gt.sum((ys[:-1] - t[1:]) ** 2, 0),
    "the one before": lambda ys, t: gt.sum((ys[1:] - t[:-1]) ** 2, 0),
    "the middle": lambda ys, t: gt.sum(gt.exp(ys[2:-1] * t[2:-1]), 1).sum(),
    "backwards": lambda ys, t: gt.sum(ys[::-1] * t),
    "both backwards": lambda ys, t: gt.sum(ys[::-1] * t[::-1]),
    "backwards in part": lambda ys, t: gt.sum(ys[-2::-1] * t[1:]),
    "twice": lambda ys, t: gt.sum(ys[1:][::-1][:-1] * t[:-2]),
    "every second": lambda ys, t: gt.sum(ys[::2] * t[::2]),
    "every second from one": lambda ys, t: gt.argmax(ys[1::2], 0),
    "where in part": lambda ys, t: gt.argmin((ys - t)[1:], 0),
    "last": lambda ys, t: ys[-1],
    "logsumexp": lambda ys, t: gt.nn.logsumexp(9 * ys[1:] - t[:-1], 0),
    "last of rows": lambda ys, t: (ys * t)[-1, ..., 1],
    "first": lambda ys, t: gt.exp(ys)[0] + gt.sum(ys),
    "second": lambda ys, t: ys[1] * gt.sum(ys * t),
    "last of part": lambda ys, t: ys[:-1][::-1][0],
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("what", PARTS)
def test_parts_of_what_is_stacked(what, reverse):
    inputs = variables()
    xs, w, t = inputs
    _, ys = running(xs, w, reverse)
    y = PARTS[what](ys, t)
    assert scans([y]) == [[]]
    agree(inputs, [y], [arrays(n) for n in (6, 3, 2, 1, 0)], ("numpy",))
    if y.dtype.kind == "f" and not reverse:
        slopes = graphc.grad(gt.sum(y**2), [xs, w])
        agree(inputs, [y, *slopes], [arrays(4)], ("numpy",))


def test_parts_of_what_is_stacked_in_one_program():
    """Gradients too; JAX would take as long to compile each of them alone."""
    inputs = variables()
    xs, w, t = inputs
    ys = running(xs, w)[1]
    parts = [PARTS[what](ys, t) for what in PARTS]
    assert all(len(shape) == 1 for shapes in scans(parts) for shape in shapes)
    agree(inputs, parts, [arrays(4)])
    loss = sum(gt.sum(y**2) for y in parts if y.dtype.kind == "f")
    agree(inputs, graphc.grad(loss, [xs, w]), [arrays(4)])


NEIGHBOURS = {
    "smoothness": lambda ys, t: gt.sum((ys[1:] - ys[:-1]) ** 2),
    "differences": lambda ys, t: gt.max(gt.absolute(gt.diff(ys, axis=0)), initial=0),
    "curvature": lambda ys, t: gt.sum(gt.abs(ys[2:] - 2 * ys[1:-1] + ys[:-2]), 0),
    "autocorrelation": lambda ys, t: gt.tensordot(ys[3:], ys[:-3], ys.ndim),
    "error of a forecast": lambda ys, t: gt.mean((t[1:] - ys[:-1] * ys[1:]) ** 2),
    "per step": lambda ys, t: gt.mean((ys[1:] - ys[:-1]) ** 2, -1),
    "with another": lambda ys, t: gt.sum(ys[1:] * ys[:-1]) - gt.sum(ys * t),
    "every second": lambda ys, t: gt.argmax(ys[2::2] - ys[:-2:2], 0),
    "backwards": lambda ys, t: gt.sum(ys[::-1][1:] * gt.sin(ys[::-1][:-1]), 0),
    "cut twice": lambda ys, t: gt.nn.logsumexp(9 * ys[1:][1:] - ys[:-1][:-1], 0),
    "computed": lambda ys, t: gt.sum(gt.tanh(ys * t)[1:] * gt.tanh(ys * t)[:-1]),
    "rises": lambda ys, t: gt.count_nonzero(ys[1:] > ys[:-1]),
    "last": lambda ys, t: (ys[1:] - ys[:-1])[-1],
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("what", NEIGHBOURS)
def test_rows_of_some_steps_together(what, reverse):
    inputs = variables()
    xs, w, t = inputs
    _, ys = running(xs, w, reverse)
    y = NEIGHBOURS[what](ys, t)
    ((*stacked,),) = scans([y])
    assert all(len(shape) < ys.ndim for shape in stacked)
    agree(inputs, [y], [arrays(n) for n in (9, 4, 3, 2, 1, 0)], ("numpy",))


def test_rows_of_some_steps_together_in_one_program():
    inputs = variables("float32")
    xs, w, t = inputs
    ys = several(xs, w, reverse=True)[1]
    found = [NEIGHBOURS[what](ys / 9, t) for what in NEIGHBOURS]
    assert all(len(shape) == 1 for shapes in scans(found) for shape in shapes)
    agree(inputs, found, [arrays(7, "float32")], rtol=1e-4)


def test_parts_of_one_row_come_of_their_step():
    """That step is not the same for all parts; otherwise, rules would never end."""
    inputs = xs, w = variables(n=3)[:2]
    ys = running(xs, w)[1]
    found = [gt.sum(ys[2:] * ys[:-2], 0), gt.sum(gt.abs(ys[2:] - ys[1:-1]), ())]
    assert scans([found[0]]) == [[]]
    agree(inputs, found, [arrays(3)[:2]], ("numpy",))


def test_rows_far_apart_stay_stacked():
    xs, w, _ = variables(n=40)
    ys = running(xs, w)[1]
    found = [gt.sum(ys[20:] * ys[:-20]), gt.sum(ys * ys[::-1])]
    assert all(scans([y]) == [[(40, WIDTH)]] for y in found)


def test_the_gradient_of_a_part_keeps_the_carries_only():
    xs, w, t = variables()
    _, ys = running(xs, w, checkpoint="all")
    loss = gt.mean((ys[1:] - t[1:]) ** 2) + gt.sum(ys[-1] ** 2)
    n = xs.type.shape[0]
    assert scans([loss, graphc.grad(loss, w)]) == [[(n, WIDTH)], []]
