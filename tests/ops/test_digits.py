"""Python floats are rounded once, to the dtype that they end up in.

Each function gets them beside float64 arrays or with a float64 dtype. Were they first
rounded to the default float, only seven digits would be right.
"""

import numpy as np

import graphc
import graphc.tensor as gt

P, Q = 0.1, 1.7
X = np.array([0.3, -1.1, 2.3, 0.7])
FUNCTIONS = {
    "full": lambda xp, x: xp.full_like(x, P),
    "where": lambda xp, x: xp.where(x > 0, x, P),
    "clip": lambda xp, x: xp.clip(x, P, Q),
    "select": lambda xp, x: xp.select([x > 0], [x], P),
    "piecewise": lambda xp, x: xp.piecewise(x, [x > 0], [P, lambda t: t * P]),
    "ediff1d": lambda xp, x: xp.ediff1d(x, to_begin=P, to_end=Q),
    "interp": lambda xp, x: xp.interp(x, [P, 1.3], [0.7, 2.9], left=P, right=Q),
    "quantile": lambda xp, x: xp.quantile(x, P),
    "percentile": lambda xp, x: xp.percentile(x, [P, 17.3]),
    "max": lambda xp, x: xp.max(x, initial=2.7),
    "sum": lambda xp, x: xp.sum(x, initial=P),
    "prod": lambda xp, x: xp.prod(x, initial=P),
    "linspace": lambda xp, x: xp.linspace(P, Q, 5, dtype="float64"),
    "linspace to an array": lambda xp, x: xp.linspace(P, x, 3),
    "logspace": lambda xp, x: xp.logspace(P, Q, 5, dtype="float64"),
    "geomspace": lambda xp, x: xp.geomspace(P, Q, 5, dtype="float64"),
    "arange": lambda xp, x: xp.arange(P, Q, 0.3, dtype="float64"),
    "asarray": lambda xp, x: xp.asarray(P, dtype="float64"),
    "pad": lambda xp, x: xp.pad(x, 1, constant_values=P),
    "ramp": lambda xp, x: xp.pad(x, 2, "linear_ramp", end_values=P),
    "append": lambda xp, x: xp.append(x, P),
    "insert": lambda xp, x: xp.insert(x, 1, P),
    "hstack": lambda xp, x: xp.hstack([x, P]),
    "vstack": lambda xp, x: xp.vstack([x[:, None], P]),
    "column_stack": lambda xp, x: xp.column_stack([x[:1], P]),
    "dstack": lambda xp, x: xp.dstack([x[:1], P]),
    "block": lambda xp, x: xp.block([x, P]),
    "stack": lambda xp, x: xp.stack([x[0], P]),
    "diff": lambda xp, x: xp.diff(x, prepend=P, append=Q),
    "average": lambda xp, x: xp.average(x, weights=[P, 0.2, 0.3, Q]),
    "isclose": lambda xp, x: xp.isclose(x, 0.3, rtol=0.0, atol=0.0),
    "isin": lambda xp, x: xp.isin(x, [0.3, 0.7]),
    "searchsorted": lambda xp, x: xp.searchsorted(x[:1], 0.3, side="right"),
    "choose": lambda xp, x: xp.choose(np.array([0, 1, 0, 1]), [x, P]),
    "outer": lambda xp, x: xp.outer(x, P),
    "kron": lambda xp, x: xp.kron(x, P),
    "heaviside": lambda xp, x: xp.heaviside(x * 0, P),
    "nan_to_num": lambda xp, x: xp.nan_to_num(x * np.inf, posinf=P, neginf=Q),
    "cov": lambda xp, x: xp.cov(x, aweights=[P, 0.2, 0.3, Q]),
}


def test_python_floats_are_rounded_once():
    x = gt.tensor("x", "float64", (4,))
    made = {name: function(gt, x) for name, function in FUNCTIONS.items()}
    wanted = {name: function(np, X) for name, function in FUNCTIONS.items()}
    made["set"], wanted["set"] = x.at[1].set(P), np.r_[X[:1], P, X[2:]]
    made["multiply"] = x.at[x > 0].multiply(P)
    wanted["multiply"] = np.where(X > 0, X * P, X)
    found = graphc.function([x], made, backend="numpy")(X)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, 1e-13, err_msg=name)
