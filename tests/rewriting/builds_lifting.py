"""Values in which changes of shape meet, or in which copies are made."""

import graphc.tensor as gt

ROW = {"x": ("n", 6)}
SMALL = {"x": ("n", 3), "w": (3,)}


def reduced(reduce):
    """A reduction over axes made by a reshape, with factors along the last axis."""

    def build(x, w):
        y = x.reshape(2, -1, 3) * w
        return reduce(gt.negative(y), axis=(0, 1))

    return {"build": build, "shapes": {"x": ("n", 3), "w": (3,)}}


def copies(reduce):
    """A reduction of copies along both axes that hold them; one axis of `x` remains."""

    def build(x):
        return reduce(gt.broadcast_to(x, (4, x.shape[0], 2)), axis=(0, 2))

    return {"build": build, "shapes": {"x": ("n", 1)}}


def of_bools(reduce):
    """The reduction of `copies`, with copies of bools."""

    def build(x):
        return reduce(gt.broadcast_to(x > 0, (4, x.shape[0], 2)), axis=(0, 2))

    return {"build": build, "shapes": {"x": ("n", 1)}}


LIFTED = {
    "reshape_of_reshaped": {
        "build": lambda x, w: gt.negative(x.reshape(2, -1, 3) * w).reshape(-1, 3),
        "shapes": SMALL,
    },
    "squeeze_of_reshaped": {
        "build": lambda x: gt.negative(gt.expand_dims(x, 1)).squeeze(1),
        "shapes": ROW,
    },
    "expand_dims_of_reshaped": {
        "build": lambda x: gt.expand_dims(gt.negative(x.squeeze(1)), 1),
        "shapes": {"x": ("n", 1)},
    },
    "reshape_of_sums": {
        "build": lambda x: gt.sum(x.reshape(2, -1, 3), axis=2).reshape(-1),
        "shapes": {"x": ("n", 3)},
    },
    **{
        f"{name}_of_all_reshaped": reduced(getattr(gt, name))
        for name in ("sum", "prod", "max", "min")
    },
    **{
        f"{name}_from_of_all_reshaped": reduced(
            lambda x, axis, name=name: getattr(gt, name)(x, axis=axis, initial=-5)
        )
        for name in ("max", "min")
    },
    **{
        f"{name}_of_all_reshaped": reduced(
            lambda x, axis, name=name: getattr(gt, name)(x > 0, axis=axis)
        )
        for name in ("any", "all")
    },
    "elementwise_of_copies": {
        "build": lambda x: gt.tanh(gt.broadcast_to(x, (3, x.shape[0], 2))),
        "shapes": {"x": ("n", 1)},
    },
    "index_of_copies": {
        "build": lambda x: gt.broadcast_to(x, (4, x.shape[0], 6))[1, :, 2:5],
        "shapes": {"x": ("n", 1)},
    },
    **{f"{name}_of_copies": copies(getattr(gt, name)) for name in ("max", "min")},
    **{f"{name}_of_copies": of_bools(getattr(gt, name)) for name in ("any", "all")},
}
