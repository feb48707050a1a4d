"""Special cases of elementwise functions as the Array API standard states them.

The facts are those of the standard's pages of elementwise functions, version 2024.12,
for real floating-point operands:
https://data-apis.org/array-api/2024.12/API_specification A `~` before a result means
that the sign of a zero is unspecified.
"""

from math import inf, nan, pi

ONE = """
    abs: nan nan, -0 0, -inf inf
    acos: nan nan, 2 nan, -2 nan, 1 0
    acosh: nan nan, .5 nan, -inf nan, 1 0, inf inf
    asin: nan nan, 2 nan, -2 nan, 0 0, -0 -0
    asinh: nan nan, 0 0, -0 -0, inf inf, -inf -inf
    atan: nan nan, 0 0, -0 -0, inf pi/2, -inf -pi/2
    atanh: nan nan, 2 nan, -2 nan, -1 -inf, 1 inf, 0 0, -0 -0
    ceil: 3 3, inf inf, -inf -inf, 0 0, -0 -0, nan nan, -.5 -0, 2.5 3
    cos: nan nan, 0 1, -0 1, inf nan, -inf nan
    cosh: nan nan, 0 1, -0 1, inf inf, -inf inf
    exp: nan nan, 0 1, -0 1, inf inf, -inf 0
    expm1: nan nan, 0 0, -0 -0, inf inf, -inf -1
    floor: 3 3, inf inf, -inf -inf, 0 0, -0 -0, nan nan, -.5 -1, 2.5 2
    isfinite: inf 0, -inf 0, nan 0, 1 1, -0 1
    isinf: inf 1, -inf 1, nan 0, 1 0
    isnan: inf 0, nan 1, -1 0
    log: nan nan, -1 nan, -inf nan, 0 -inf, -0 -inf, 1 0, inf inf
    log10: nan nan, -1 nan, 0 -inf, -0 -inf, 1 0, inf inf
    log1p: nan nan, -2 nan, -1 -inf, -0 -0, 0 0, inf inf
    log2: nan nan, -1 nan, 0 -inf, -0 -inf, 1 0, inf inf
    negative: nan nan, inf -inf, -inf inf, 0 -0, -0 0
    reciprocal: nan nan, inf 0, -inf -0, 0 inf, -0 -inf
    round: 3 3, inf inf, -inf -inf, 0 0, -0 -0, nan nan, .5 0, 1.5 2, -.5 -0, 2.5 2
    sign: nan nan, 0 ~0, -0 ~0, 3 1, -3 -1, inf 1, -inf -1
    signbit: 0 0, -0 1, inf 0, -inf 1, 2 0, -2 1
    sin: nan nan, 0 0, -0 -0, inf nan, -inf nan
    sinh: nan nan, 0 0, -0 -0, inf inf, -inf -inf
    sqrt: nan nan, -1 nan, -inf nan, 0 0, -0 -0, inf inf
    square: nan nan, -0 0, -inf inf
    tan: nan nan, 0 0, -0 -0, inf nan, -inf nan
    tanh: nan nan, 0 0, -0 -0, inf 1, -inf -1
    trunc: 3 3, inf inf, -inf -inf, 0 0, -0 -0, nan nan, -.5 -0, .5 0, -2.5 -2
"""
TWO = """
    add: nan 1 nan, 1 nan nan, inf -inf nan, -inf inf nan, inf inf inf,
     -inf -inf -inf, inf 1 inf, -inf 1 -inf, 1 inf inf, 1 -inf -inf, -0 -0 -0,
     -0 0 0, 0 -0 0, 0 0 0, 0 2 2, -0 2 2, 2 -0 2, 2 -2 0, -2 2 0
    atan2: nan 1 nan, 1 nan nan, 1 0 pi/2, 1 -0 pi/2, 0 1 0, 0 0 0, 0 -0 pi, 0 -1 pi,
     -0 1 -0, -0 0 -0, -0 -0 -pi, -0 -1 -pi, -1 0 -pi/2, -1 -0 -pi/2, 1 inf 0,
     1 -inf pi, -1 inf -0, -1 -inf -pi, inf 1 pi/2, -inf 1 -pi/2, inf inf pi/4,
     inf -inf 3*pi/4, -inf inf -pi/4, -inf -inf -3*pi/4
    copysign: 1 0 1, 1 -0 -1, -0 1 0, 0 -1 -0, inf -2 -inf, nan 1 nan
    divide: nan 1 nan, 1 nan nan, inf inf nan, inf -inf nan, -inf inf nan, 0 0 nan,
     0 -0 nan, -0 0 nan, -0 -0 nan, 0 1 0, 0 -1 -0, -0 1 -0, -0 -1 0, 1 0 inf,
     1 -0 -inf, -1 0 -inf, -1 -0 inf, inf 1 inf, inf -1 -inf, -inf 1 -inf, -inf -1 inf,
     1 inf 0, 1 -inf -0, -1 inf -0, -1 -inf 0
    equal: nan nan 0, nan 1 0, inf inf 1, -inf -inf 1, inf -inf 0, 0 -0 1
    floor_divide: nan 1 nan, 1 nan nan, inf inf nan, inf -inf nan, 0 0 nan, -0 0 nan,
     0 1 0, 0 -1 -0, -0 1 -0, -0 -1 0, 1 0 inf, 1 -0 -inf, -1 0 -inf, -1 -0 inf,
     5 2 2, -5 2 -3, 5 -2 -3, 1 inf 0, -1 -inf 0
    greater: nan 1 0, 1 nan 0, 1 2 0, inf 1 1
    hypot: inf nan inf, nan -inf inf, -inf 1 inf, 1 -inf inf, nan 1 nan, 1 nan nan,
     nan nan nan
    less_equal: nan 1 0, 1 nan 0, -0 0 1, inf inf 1
    logaddexp: nan 1 nan, 1 nan nan, inf 1 inf, 1 inf inf
    maximum: nan 1 nan, 1 nan nan, inf 1 inf, 1 -inf 1
    minimum: nan 1 nan, 1 nan nan, inf 1 1, 1 -inf -inf
    multiply: nan 1 nan, inf 0 nan, -inf 0 nan, 0 -inf nan, inf inf inf, inf -inf -inf,
     -inf -inf inf, inf 2 inf, inf -2 -inf, 2 -inf -inf, -0 2 -0, -0 -2 0, 0 -2 -0
    nextafter: nan 1 nan, 1 nan nan, -0 0 0, 0 -0 -0
    not_equal: nan nan 1, 0 -0 0, inf inf 0
    pow: 2 0 1, nan 0 1, nan -0 1, inf 0 1, 1 nan 1, 1 inf 1, 1 -inf 1, 2 nan nan,
     nan 2 nan, 2 inf inf, -2 inf inf, 2 -inf 0, .5 inf 0, -.5 inf 0, .5 -inf inf,
     inf 2 inf, inf -2 0, -inf 3 -inf, -inf 2 inf, -inf .5 inf, -inf -3 -0, -inf -2 0,
     0 2 0, 0 -2 inf, -0 3 -0, -0 2 0, -0 -3 -inf, -0 -2 inf, -2 .5 nan, -8 1.5 nan
    remainder: nan 1 nan, 1 nan nan, inf 1 nan, -inf 1 nan, inf inf nan, 0 0 nan,
     1 0 nan, 1 -0 nan, -1 0 nan, 0 1 0, 0 -1 -0, -0 1 0, -0 -1 -0, 1 inf 1,
     1 -inf -inf, -1 inf inf, -1 -inf -1, 4 2 0, -4 2 0, 4 -2 -0, -4 -2 -0, 5 -3 -1
    subtract: nan 1 nan, inf inf nan, -inf -inf nan, inf -inf inf, 1 inf -inf, 0 -0 0,
     0 0 0, -0 -0 0, -0 0 -0
"""


def number(text: str) -> float:
    """A number as the tables write it."""
    known = {"inf": inf, "nan": nan, "pi": pi}
    return -0.0 if text == "-0" else float(eval(text, known))


def cases(table: str) -> dict[str, list[list[str]]]:
    """The cases by function: for each case a list of its operands and its result."""
    rows: list[str] = []
    for line in table.strip().splitlines():
        if ":" in line:
            rows.append("")
        rows[-1] += f" {line.strip()}"
    split = [row.split(": ") for row in rows]
    return {name.strip(): [c.split() for c in rest.split(",")] for name, rest in split}
