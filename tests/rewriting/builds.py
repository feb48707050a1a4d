"""Values in which rules fire that need more than their pattern says."""

import graphc.tensor as gt

ROW = {"x": ("n",), "z": ("n",)}


def selected(reduce):
    """A reduction of the positive elements, or of some rows."""
    return {"build": lambda x: reduce(gt.exp(x[x > 0])), "shapes": {"x": ("n", 2)}}


BUILDS = {
    "sum_of_selected": selected(gt.sum),
    "prod_of_selected": selected(gt.prod),
    "max_of_selected": selected(gt.max),
    "min_of_selected": selected(gt.min),
    "any_of_selected": selected(lambda x: gt.any(x > 2)),
    "all_of_selected": selected(lambda x: gt.all(x > 2)),
    "max_from_of_selected": selected(lambda x: gt.max(x, initial=0)),
    "min_from_of_selected": selected(lambda x: gt.min(x, initial=0)),
    "write_to_selected": {
        "build": lambda x, z: x.at[x > 0].set(gt.exp(z[x > 0])),
        "shapes": ROW,
    },
    "write_to_slice": {
        "build": lambda x, z, s: x.at[: s.shape[0]].set(gt.exp(z[: s.shape[0]])),
        "shapes": ROW | {"s": ("k",)},
    },
}
