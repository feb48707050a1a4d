"""Functions for NumPy with loops whose steps have arrays or loops of other sizes."""

import numpy as np


def prefix_means(x):
    return np.array([x[: i + 1].mean() for i in range(len(x))])


def largest_after(x):
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = x[i:].max() - x[i]
    return out


def scaled_parts(x):
    out = np.ones((len(x), len(x)))
    for i in range(len(x)):
        out[i, :i] = np.ones(i) * x[:i] * x[i]
    return out


def back_substitution(a):
    n = len(a)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (a[i, 0] - a[i, i + 1 :] @ x[i + 1 :]) / (a[i, i] + n)
    return x


def cholesky(a):
    n = len(a)
    a, factor = a @ a.T + n * np.eye(n), np.zeros((n, n))
    for j in range(n):
        factor[j, j] = np.sqrt(a[j, j] - factor[j, :j] @ factor[j, :j])
        below = a[j + 1 :, j] - factor[j + 1 :, :j] @ factor[j, :j]
        factor[j + 1 :, j] = below / factor[j, j]
    return factor


def eliminated(a):
    n = len(a)
    a = a + n * np.eye(n)
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def pairwise(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            total += abs(x[i] - x[j])
    return total


def sorted_by_swaps(x):
    x = x.copy()
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            x[j], x[j + 1] = np.minimum(x[j], x[j + 1]), np.maximum(x[j], x[j + 1])
    return x


def lower_triangle(x):
    out = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(i + 1):
            out[i, j] = x[i] * x[j]
    return out


def divided_differences(x):
    differences, places = x.copy(), np.arange(len(x)) + x / 2
    for j in range(1, len(x)):
        change = differences[j:] - differences[j - 1 : -1]
        differences[j:] = change / (places[j:] - places[:-j])
    return differences


def cheapest_splits(x):
    n = len(x)
    costs = np.zeros((n, n))
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            splits = costs[i, i:j] + costs[i + 1 : j + 1, j]
            costs[i, j] = np.min(splits) + x[i] * x[j]
    return costs


def halfway(points):
    """De Casteljau's algorithm: each step has one point less than the one before."""
    for _ in range(len(points) - 1):
        points = 0.5 * points[:-1] + 0.5 * points[1:]
    return points[:2]


def table_of_lists(x):
    """A game in which two take numbers from either end: a table of Python's lists."""
    n = len(x)
    best = [[0.0] * n for _ in range(n)]
    for i in range(n):
        best[i][i] = x[i]
    for d in range(1, n):
        for i in range(n - d):
            first, last = x[i] - best[i + 1][i + d], x[i + d] - best[i][i + d - 1]
            best[i][i + d] = np.maximum(first, last)
    return best[0][n - 1]


def growing(x):
    memory = x[:1]
    for number in x[1:]:
        memory = np.append(0.9 * memory, memory.mean() + number)
    return memory


OF_VECTORS = (
    prefix_means,
    largest_after,
    scaled_parts,
    pairwise,
    sorted_by_swaps,
    lower_triangle,
    divided_differences,
    cheapest_splits,
    halfway,
    table_of_lists,
    growing,
)
OF_MATRICES = back_substitution, cholesky, eliminated
