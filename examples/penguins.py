"""Which penguins are heavier, or lighter, than their measurements say?

The example makes a cubic ridge regression of body mass on bill and flipper. From its
residuals, it finds the k birds that fit worst, and how much each species on each island
weighs beyond what the curve explains. Three things in it have no fixed size:

  - some birds were not weighed or measured, and a caller may leave out more: how many
    are left depends on the data;
  - so does the number of groups (a species on an island) among them;
  - k is an argument.

The program is compiled to JAX and to NumPy, called with several sizes, and every
answer is compared with plain NumPy. Run it: python examples/penguins.py
"""

import csv
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt

DATA = Path(__file__).parent / "data" / "penguins.csv"
MEASURED = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm")
PRODUCTS = [
    factors
    for degree in range(4)
    for factors in itertools.combinations_with_replacement(range(len(MEASURED)), degree)
]
RIDGE = 10.0  # the penalty on the square of a coefficient
PRIOR = 20.0  # a group's excess is shrunk as if 20 ordinary birds were in it
STEPS = 40  # steps of conjugate gradients; 20 coefficients need about 30


def load() -> dict[str, np.ndarray]:
    """Load the columns of the file, with NaN for missing numbers."""
    with open(DATA, newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    for name in (*MEASURED, "body_mass_g", "year"):
        columns[name] = np.array(
            [np.nan if text == "NA" else float(text) for text in columns[name]]
        )
    return columns


# --- the model, symbolically ---------------------------------------------------------


def model() -> tuple[list[gt.Value], dict[str, gt.Value]]:
    """Return the inputs and outputs of the model; nothing is computed here."""
    x = gt.tensor("x", "float64", ("n", 3))
    mass = gt.tensor("mass", "float64", ("n",))
    group = gt.tensor("group", "int64", ("n",))
    keep = gt.tensor("keep", "bool", ("n",))
    k = gt.iscalar("k")

    # The regression. Birds that do not count have weight 0, so every size here is n.
    known = keep & ~gt.isnan(mass) & ~gt.any(gt.isnan(x), axis=1)
    weight = known.astype("float64")
    centred = gt.where(known, mass - masked_mean(mass, known), 0.0)
    features = cubic(standardised(x, known)) * weight[:, None]
    fitted = features @ solve(
        features.T @ features + RIDGE * gt.eye(len(PRODUCTS), dtype="float64"),
        features.T @ centred,
    )

    # The residuals of the birds that count, whose number depends on the data.
    excess = (centred - fitted)[known]
    rows = gt.nonzero(known)[0]

    # The k worst fits.
    worst = gt.argsort(-gt.abs(excess))[:k]

    # The mean excess per group, shrunk towards 0, for the groups that occur.
    member_of = group[known]
    groups = gt.unique(member_of)
    member = (member_of[:, None] == groups).astype("float64")
    group_excess = (excess @ member) / (gt.sum(member, axis=0) + PRIOR)

    outputs = {
        "worst_rows": rows[worst],
        "worst_excess": excess[worst],
        "groups": groups,
        "group_excess": group_excess,
    }
    return [x, mass, group, keep, k], outputs


def masked_mean(x: gt.Value, known: gt.Value) -> gt.Value:
    """Return the mean over the known rows, at the full size."""
    rows = known if x.ndim == 1 else known[:, None]
    return gt.sum(gt.where(rows, x, 0.0), axis=0) / gt.sum(known)


def standardised(x: gt.Value, known: gt.Value) -> gt.Value:
    """Scale the known rows to mean 0 and variance 1; the other rows are 0."""
    centred = gt.where(known[:, None], x - masked_mean(x, known), 0.0)
    return centred / gt.sqrt(masked_mean(centred**2, known))


def cubic(z: gt.Value) -> gt.Value:
    """Return all products of up to three columns of `z`, side by side."""
    columns = {(): gt.ones_like(z[:, 0])}
    for factors in PRODUCTS[1:]:
        columns[factors] = columns[factors[:-1]] * z[:, factors[-1]]
    return gt.stack(list(columns.values()), axis=1)


def solve(a: gt.Value, b: gt.Value) -> gt.Value:
    """Solve a v = b for a positive definite `a`, by conjugate gradients."""
    v = gt.zeros_like(b)
    left = direction = b
    square = left @ left
    for _ in range(STEPS):
        image = a @ direction
        step = square / (direction @ image)
        v = v + step * direction
        left = left - step * image
        square_before, square = square, left @ left
        direction = left + (square / square_before) * direction
    return v


# --- the same in plain NumPy ---------------------------------------------------------


def plain_numpy(
    x: np.ndarray, mass: np.ndarray, group: np.ndarray, keep: np.ndarray, k: int
) -> dict[str, np.ndarray]:
    """Compute in plain NumPy the results that the compiled programs must return."""
    known = keep & ~np.isnan(mass) & ~np.isnan(x).any(axis=1)
    x, mass, group = x[known], mass[known], group[known]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    features = np.stack([z[:, list(p)].prod(axis=1) for p in PRODUCTS], axis=1)
    centred = mass - mass.mean()
    penalty = RIDGE * np.eye(len(PRODUCTS))
    coefficients = np.linalg.solve(
        features.T @ features + penalty, features.T @ centred
    )
    excess = centred - features @ coefficients
    worst = np.argsort(-np.abs(excess))[:k]
    groups = np.unique(group)
    sums = [(excess[group == g].sum(), (group == g).sum()) for g in groups]
    return {
        "worst_rows": np.nonzero(known)[0][worst],
        "worst_excess": excess[worst],
        "groups": groups,
        "group_excess": np.array([total / (n + PRIOR) for total, n in sums]),
    }


# --- the story -----------------------------------------------------------------------


def main() -> int:
    """Compile, explain, call and compare; return 0 if everything agrees."""
    columns = load()
    x = np.stack([columns[name] for name in MEASURED], axis=1)
    mass = columns["body_mass_g"]
    labels = np.char.add(np.char.add(columns["species"], " on "), columns["island"])
    names, group = np.unique(labels, return_inverse=True)
    everywhere = np.ones(len(mass), dtype=bool)
    dream = columns["island"] == "Dream"
    birds = (x, mass, group)
    calls = {
        "all birds, k = 3": (*birds, everywhere, 3),
        "all birds, k = 5": (*birds, everywhere, 5),
        "only Dream island, k = 5": (*birds, dream, 5),
        "the first 200 rows, k = 5": (*(a[:200] for a in (*birds, everywhere)), 5),
        "all birds, k = 3, again": (*birds, everywhere, 3),
    }

    inputs, outputs = model()
    on_jax = graphc.function(inputs, outputs, backend="jax")
    on_numpy = graphc.function(inputs, outputs, backend="numpy")

    heading("What goes in and what comes out")
    for value in inputs:
        print(f"{value.name}: {value.type}")
    for name, value in outputs.items():
        print(f"-> {name}: {value.type}")

    heading("The plan")
    print(on_jax.explain(full=True))

    heading("The emitted source of the last segment")
    print(segment_source(on_jax.source, len(on_jax.plan.segments) - 1))

    heading("Calls, and what each of them compiled")
    agree = True
    for title, arguments in calls.items():
        results = report(title, on_jax, arguments)
        wanted = plain_numpy(*arguments)
        agree &= same("JAX", results, wanted)
        agree &= same("NumPy", on_numpy(*arguments), wanted)

    heading("The result for all birds")
    result = on_numpy(*calls["all birds, k = 3"])
    for row, grams in zip(result["worst_rows"], result["worst_excess"], strict=True):
        print(f"line {row + 2} of the file, {labels[row]}: {grams:+.0f} g")
    for g, grams in zip(result["groups"], result["group_excess"], strict=True):
        print(f"{names[g]}: {grams:+.0f} g on average, shrunk")

    heading("Both backends agree with plain NumPy" if agree else "THEY DIFFER")
    return 0 if agree else 1


def heading(text: str) -> None:
    """Print a line that opens a part of the output."""
    print(f"\n--- {text} ---")


def segment_source(source: str, index: int) -> str:
    """Cut the function of one segment out of the emitted module."""
    start = source.index(f"def segment_{index}(")
    return source[start : source.index("\n\n\n", start)]


def report(title: str, f: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Return the result of one call; print its shapes and what was compiled for it."""
    before = len(f.stats().compilations)
    results = f(*arguments)
    print(f"{title}: {len(results['groups'])} groups")
    new = f.stats().compilations[before:]
    for one in new:
        print(f"  segment {one.segment} in {one.seconds:.2f} s: {one.reason}")
    if not new:
        print("  nothing")
    return results


def same(backend: str, results: dict[str, Any], wanted: dict[str, np.ndarray]) -> bool:
    """Whether a backend returned what plain NumPy did; print where it did not."""
    agree = True
    for name, array in wanted.items():
        got = np.asarray(results[name])
        alike = got.dtype == array.dtype and got.shape == array.shape
        if not alike or not np.allclose(got, array, rtol=1e-8, atol=1e-6):
            print(f"  {backend}: {name} is {got}, plain NumPy says {array}")
            agree = False
    return agree


if __name__ == "__main__":
    sys.exit(main())
