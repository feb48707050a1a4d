"""Slices and tiles of results come from those of operands: all ops with a rule."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.primitives import OP
from graphc.rewriting.loops.find.access import Tile
from graphc.rewriting.loops.find.axis_rules import (
    AXES,
    TILE_AXES,
    build_part,
    is_placed_tile,
    operand_axes,
)

FIRST, COUNT = 1, 2
INPUTS = X, Y, Z, PLACES = (
    gt.tensor("x", "float64", (6, 4)),
    gt.tensor("y", "float64", (4, 5)),
    gt.tensor("z", "float64", (6, 4, 3)),
    gt.tensor("places", "int64", (6,)),
)
ROWS = gt.arange(6)
BUILT = [
    *(X + X[:, :1], gt.exp(Z) - Z[0], gt.where(X > 0, X, 0)),
    *(gt.broadcast_to(X, (3, 6, 4)), gt.full((6, 4), X[0, 0])),
    gt.transpose(Z, (2, 0, 1)),
    *(gt.expand_dims(X, (0, 2)), gt.squeeze(Z[:, :1], 1), gt.reshape(Z, (6, 12))),
    *(Z[:, 1:, 0], Z[1], Z[:, ::-1], Z[:, None, :, 1]),
    *(X[ROWS, PLACES], Z[ROWS, PLACES], Z[:, ROWS[:4], PLACES[:4] % 3]),
    *(X.at[ROWS, PLACES].add(2.0), X.at[ROWS, PLACES].set(X[:, 0])),
    *(X.at[ROWS, PLACES + 2].multiply(X[:, 1]), X.at[ROWS, -PLACES - 1].set(7.0)),
    *(X.at[:, 2].add(X[:, 0]), X.at[1].set(Y[:, 0])),
    *(Z.at[..., 1].add(X), Z.at[2].set(3.0)),
    *(X.at[:, 1:3].set(X[:, :2]), Z.at[1:, 2].add(1.0)),
    *(gt.concatenate([X, 2 * X], 1), gt.stack([X, -X], 1)),
    *(X @ Y, Y.T @ X.T, gt.swapaxes(Z, 1, 2) @ Y, X @ Y[:, 0], Y[:, 0] @ X.T),
    *(gt.tensordot(Z, Y, ((1,), (0,))), gt.vecdot(X, X[1:2]), gt.vecdot(Z, Z)),
    gt.assert_(X < 9, "small", X),
    OP.specify_shape(X, shape=(6, None), kind="stated"),
    *(reduce(Z, 1) for reduce in (gt.sum, gt.prod, gt.max, gt.min)),
    *(reduce(Z > 0, (0, 2), keepdims=True) for reduce in (gt.any, gt.all)),
    *(reduce(Z, (1, 2), initial=0.5) for reduce in (gt.max, gt.min)),
    *(along(Z, 1) for along in (gt.argmax, gt.argmin, gt.sort, gt.argsort)),
    *(along(Z, 1) for along in (gt.cumsum, gt.cumprod)),
    *(along(Z, axis=1, reverse=True) for along in (OP.cummax, OP.cummin)),
    OP.peak(gt.absolute(Z), axis=1),
]


def cut(value, axis, tiled):
    """A part of an operand; all of it for `axis` None or an axis of one element."""
    if axis is None:
        return value
    one = value.type.shape[axis] == 1
    if not tiled:
        return value[(slice(None),) * axis + (0 if one else FIRST,)]
    if one:
        return value
    return value[(slice(None),) * axis + (slice(FIRST, FIRST + COUNT),)]


def parts_of(value, tiled):
    """Yield parts of a value made by its rule, each with the part that is expected."""
    node = value.node
    for axis, size in enumerate(value.type.shape):
        axes = operand_axes(node, axis, tiled) if size != 1 else None
        if axes is None:
            continue
        given = [cut(x, a, tiled) for x, a in zip(node.inputs, axes, strict=True)]
        tile = Tile(COUNT, gt.asarray(FIRST, dtype="int32")) if tiled else None
        if tile and not is_placed_tile(node, axis):
            tile = tile._replace(first=None)
        yield build_part(node, axis, given, tile), cut(value, axis, tiled)


def test_every_rule_is_tried():
    assert {*AXES.rules, *TILE_AXES.rules} <= {value.node.primitive for value in BUILT}


@pytest.mark.parametrize("tiled", [False, True], ids=["slices", "tiles"])
def test_a_part_of_a_result_is_made_of_parts(tiled):
    pairs = [pair for value in BUILT for pair in parts_of(value, tiled)]
    outputs = [value for pair in pairs for value in pair]
    rules = graphc.rewrites.none
    f = graphc.function(
        INPUTS, outputs, backend="numpy", rewrites=rules, unused="ignore"
    )
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=(6, 4)),
        rng.normal(size=(4, 5)),
        rng.normal(size=(6, 4, 3)),
    ]
    found = f(*arrays, np.array([3, 1, 2, 0, 1, 2]))
    assert len(pairs) > 60
    for (made, _), a, b in zip(pairs, found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(a.shape, b.shape, err_msg=str(made.node.place))
        np.testing.assert_allclose(a, b, err_msg=str(made.node.place))
