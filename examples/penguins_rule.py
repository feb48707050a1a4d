"""A rewrite rule of one's own: a median over measured birds without their number.

How well fed is a penguin? Its condition is the log of its mass over the cube of its
flipper's length. The robust score of a bird is the distance of its condition from the
median, in units of the median absolute deviation. Both medians are over the birds that
were measured and that the caller keeps. Their number depends on the data, so graphc
reads it from the device, and compiles what follows anew for each number.

`median_of_selected` tells graphc what a statistician knows: missing values can stay in
place, as NaN. The plan is printed without the rule and with it, the rule is checked
on graphs that it matches (for which Hypothesis is needed), and the scores are compared
with plain NumPy. Run it: python examples/penguins_rule.py
"""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt

DATA = Path(__file__).parent / "data" / "penguins.csv"
NORMAL = 1.4826  # standard over median absolute deviation, for a normal


@graphc.rewrite(
    lambda x, mask: gt.median(x[mask]),
    shapes={"x": ("n",), "mask": ("n",)},
    dtypes={"x": ("float64", "float32"), "mask": "bool"},
    exact=False,
    finite=True,
)
def median_of_selected(x: gt.Value, mask: gt.Value) -> gt.Value:
    """Replace elements that are not selected by NaN, which nanmedian leaves out."""
    return gt.nanmedian(gt.where(mask, x, float("nan")))


def load() -> dict[str, np.ndarray]:
    """Load the columns of the file that are used, with NaN for missing numbers."""
    with open(DATA, newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = {
        name: np.array([np.nan if r[name] == "NA" else float(r[name]) for r in rows])
        for name in ("body_mass_g", "flipper_length_mm")
    }
    return numbers | {"species": np.array([row["species"] for row in rows])}


def model() -> tuple[list[gt.Value], gt.Value]:
    """Return the inputs, and the score of each bird: 0 for birds that do not count."""
    mass = gt.tensor("mass", "float64", ("n",))
    flipper = gt.tensor("flipper", "float64", ("n",))
    keep = gt.tensor("keep", "bool", ("n",))

    condition = gt.log(mass) - 3 * gt.log(flipper)
    known = keep & ~gt.isnan(condition)
    centre = gt.median(condition[known])
    spread = NORMAL * gt.median(gt.abs(condition - centre)[known])
    score = gt.where(known, (condition - centre) / spread, 0.0)
    return [mass, flipper, keep], score


def plain_numpy(mass: np.ndarray, flipper: np.ndarray, keep: np.ndarray) -> Any:
    """Compute in plain NumPy the scores that the compiled programs must return."""
    condition = np.log(mass) - 3 * np.log(flipper)
    known = keep & ~np.isnan(condition)
    left = condition[known] - np.median(condition[known])
    score = np.zeros(len(mass))
    score[known] = left / (NORMAL * np.median(np.abs(left)))
    return score


def main() -> int:
    """Show plans, the check and the extreme birds; return 0 if everything agrees."""
    columns = load()
    mass, flipper = columns["body_mass_g"], columns["flipper_length_mm"]
    inputs, score = model()
    with_rule = graphc.rewrites.default + median_of_selected
    before = graphc.function(inputs, score)
    after = graphc.function(inputs, score, rewrites=with_rule)

    for title, f in (("without", before), ("with", after)):
        print(f"\n--- The plan {title} the rule ---")
        print(f.explain(full=True))

    print("\n--- The check of the rule ---")
    print(graphc.rewrites.check(median_of_selected, examples=5))

    print("\n--- The birds that stand out in their species ---")
    agree = True
    for name in np.unique(columns["species"]):
        keep = columns["species"] == name
        wanted = plain_numpy(mass, flipper, keep)
        for f in (before, after):
            agree &= np.allclose(f(mass, flipper, keep), wanted, rtol=1e-9)
        row = int(np.argmax(np.abs(wanted)))
        print(f"{name}: line {row + 2} of the file, {wanted[row]:+.1f}")
    for title, f in (("without", before), ("with", after)):
        print(f"compilations {title} the rule: {len(f.stats().compilations)}")

    print("\n--- Both agree with plain NumPy ---" if agree else "\n--- THEY DIFFER ---")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
