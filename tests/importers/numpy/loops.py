"""Functions for NumPy whose Python loops run as often as an axis is long."""

import numpy as np

FUNCTIONS = {}


def listed(*ranks):
    """Keep a function that takes arrays of such ranks, with n elements on each axis."""

    def keep(function):
        FUNCTIONS[function.__name__] = function, ranks
        return function

    return keep


@listed(1)
def smoothed(x, rate=0.3):
    out = np.empty_like(x)
    level = x[0]
    for i in range(len(x)):
        level = rate * x[i] + (1 - rate) * level
        out[i] = level
    return out


@listed(1)
def halved(x):
    """The first product of the first step is needed twice: both times by 0.5."""
    levels, level = np.empty_like(x), x[0]
    for i in range(len(x)):
        level = 0.5 * x[i] + 0.5 * level
        levels[i] = level
    return levels


@listed(1)
def running_norms(x):
    norms, squares = [], 0.0
    for element in x:
        squares = squares + element * element
        norms.append(np.sqrt(squares))
    return np.array(norms), norms[-1]


@listed(1)
def sines(x):
    return np.stack([np.sin(element) / 2 for element in x])


@listed(1)
def euler(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = y[i - 1] + 0.1 * (x[i] - y[i - 1]) * np.cos(0.1 * i)
    return y


@listed(2)
def recurrent(x):
    weights, state = np.full((4, 4), 0.25), np.zeros(4)
    for row in x:
        state = np.tanh(weights @ state + row[0])
    return state


@listed(1)
def distances(x):
    n = len(x)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = abs(x[i] - x[j])
    return out


@listed(1)
def outer(x):
    return np.array([[a * b for b in x] for a in x])


@listed(1)
def fibonacci(x):
    a, b = x[0], x[1]
    for element in x[2:]:
        a, b = b, a + element * b
    return a, b


@listed(1)
def windows(x):
    weights = np.array([0.2, 0.5, 0.3])
    out = np.zeros(len(x) - 2)
    for i in range(len(x) - 2):
        out[i] = (x[i : i + 3] * weights).sum()
    return out


@listed(1)
def sums_to_the_end(x):
    """The last windows have fewer elements than the others."""
    total = 0.0
    for i in range(len(x)):
        total = 0.5 * total + x[i : i + 3].sum()
    return total


@listed(1)
def every_other_to_the_end(x):
    total = 0.0
    for i in range(len(x)):
        total = 0.5 * total + x[i : i + 4 : 2].sum()
    return total


@listed(1, 1)
def with_numbers_of_outer_loops(x, y):
    total = 0.0
    for j in range(len(y)):
        for i in range(len(x)):
            total = 0.9 * total + np.cos(j) * x[i] - y[j] * i + j
    return total


@listed(1)
def backwards(x):
    y = np.zeros(len(x))
    y[-1] = x[-1]
    for i in range(len(x) - 2, -1, -1):
        y[i] = x[i] + 0.9 * y[i + 1]
    return y, np.array([element for element in reversed(x)])


@listed(1, 1)
def edits(x, y):
    n, m = len(x), len(y)
    d = np.zeros((n + 1, m + 1))
    d[:, 0], d[0, :] = np.arange(n + 1), np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            other = np.where(np.abs(x[i - 1] - y[j - 1]) < 0.3, 0, 1)
            steps = np.minimum(d[i - 1, j], d[i, j - 1]) + 1
            d[i, j] = np.minimum(steps, d[i - 1, j - 1] + other)
    return d[n, m]


@listed(2)
def viterbi(x):
    best, before = x[0], []
    for t in range(1, len(x)):
        scores = best[:, None] - np.abs(x[t][None, :] - best[:, None])
        before.append(scores.argmax(0))
        best = scores.max(0) + x[t]
    return best, np.array(before)


@listed(1, 1)
def tridiagonal(a, d):
    n = len(d)
    c, e, x = np.zeros(n), np.zeros(n), np.zeros(n)
    c[0], e[0] = a[0] / (2 + a[0]), d[0] / (2 + a[0])
    for i in range(1, n):
        pivot = 2 + a[i] - a[i] * c[i - 1]
        c[i], e[i] = a[i] / pivot, (d[i] - a[i] * e[i - 1]) / pivot
    x[-1] = e[-1]
    for i in range(n - 2, -1, -1):
        x[i] = e[i] - c[i] * x[i + 1]
    return x


@listed(1)
def weighted(x):
    total = 0.0
    for i, (a, b) in enumerate(zip(x, x[::-1], strict=True)):
        total = total + i * a * b / len(x)
    return total


@listed(1)
def added_up(x):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] += y[i - 1]
    return y


@listed(1)
def alternating(x):
    total = 0.0
    for i in range(len(x)):
        total = total + (x[i] if i % 2 == 0 else -x[i] * x[i])
    return total


@listed(1)
def swapped(x):
    out = np.zeros(len(x))
    for i in range(0, len(x) - 1, 2):
        out[i], out[i + 1] = x[i + 1], x[i]
    return out


@listed(2)
def shortest_paths(d):
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d


@listed(2)
def around(x):
    n, out = len(x), np.zeros_like(x)
    for i in range(n):
        for j in range(n):
            out[i, j] = x[(i - 1) % n, j] + x[(i + 1) % n, j] - x[i, (j + 1) % n]
    return out


@listed(2)
def infected(x):
    susceptible, ill = 0.9, 0.1
    out = np.zeros((len(x), 2))
    for i, row in enumerate(x):
        new = row.mean() * susceptible * ill
        susceptible, ill = susceptible - new, 0.9 * ill + new
        out[i] = [susceptible, ill]
    return {"parts": out, "last": (susceptible, ill)}


@listed(1)
def counted(x):
    counts = np.zeros(5)
    places = (5 * x).astype("int64")
    for i in range(len(x)):
        counts[places[i]] += 1
    return counts


@listed(1)
def joined(x):
    return np.concatenate([np.array([element, -element]) for element in x])


@listed(2)
def normalized(x):
    out = x.copy()
    for i in range(len(x)):
        out[i] = out[i] / out[i].sum()
    return out


@listed(1)
def of_float32(x):
    total = np.float32(0)
    for element in x.astype("float32"):
        total = np.float32(0.9) * total + np.float32(0.1) * element
    return total


@listed(1)
def remainders(x):
    number = np.int64(0)
    for digit in (10 * x).astype("int64"):
        number = (number * 10 + digit) % 1_000_003
    return number


@listed(1)
def appended(x):
    out, all_pairs = np.ones(1), np.zeros((0, 2))
    for element in x:
        out = np.append(out, 0.5 * out[-1] + element)
        all_pairs = np.concatenate([[[element, 1]], all_pairs])
    return out, all_pairs
