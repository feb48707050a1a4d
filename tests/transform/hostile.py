"""Padded programs with garbage in the padding of every node.

A rule states what the padding of its result holds, or states nothing. Here, padding
without a statement becomes garbage. Statements are checked: if one is false, the whole
result becomes garbage. So a rule gives wrong numbers if it relies on another's padding
by accident, or states too much. The padding of every fourth node holds one known
number: garbage, 0 or 1.
"""

import itertools
import warnings
from dataclasses import replace
from unittest import mock

import numpy as np

import graphc
from graphc.ir.graph.build import as_value, literal_of
from graphc.ir.namespace import F
from graphc.ops.common.padding import Padding
from graphc.transform.padding import pad
from tests.transform.dirty import PAD


def garbage(dtype):
    """Pairs of numbers, for even and for odd positions."""
    if dtype.kind == "b":
        return [(True, True), (False, True), (False, False)]
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return [(ends.min, ends.max), (ends.max, 1), (0, ends.min)]
    most = float(np.finfo(np.float32 if dtype.itemsize > 2 else np.float16).max)
    pairs = [(np.nan, -np.inf), (np.inf, most), (-np.nan, -0.0), (-most, np.inf)]
    if dtype.kind == "c":
        return [(complex(a, b), complex(b, a)) for a, b in pairs]
    return pairs


class Tools(Padding):
    """The tools of a rule, with masks that are built once for all nodes of a graph."""

    def __init__(self, masks, *args):
        super().__init__(*args)
        self._masks = masks

    def mask(self, size, axis, rank):
        key = size, axis, rank
        if key not in self._masks:
            self._masks[key] = super().mask(size, axis, rank)
        return self._masks[key]


class HostilePass(pad._PaddingPass):
    """The padding pass over a graph, with garbage in each node's padding."""

    def __init__(self, *args):
        super().__init__(*args)
        self._turns, self._masks = itertools.count(), {}

    def _pad_input(self, value):
        new = super()._pad_input(value)
        self._padded[value] = replace(self._padded[value], fill={})
        self._spoil(value)
        return new

    def _visit(self, node):
        super()._visit(node)
        for value in node.outputs:
            self._spoil(value)

    def _spoil(self, value):
        x = self._padded[value]
        if x.axes:
            known = self._sizes.stored, self._sizes.exact, self._ranges.safe_range_of
            bodies = self._pad_body, self._branches.branch
            tools = Tools(self._masks, value.node, *known, *bodies)
            pairs, turn = garbage(value.dtype), next(self._turns)
            pair = [as_value(value.dtype.type(n)) for n in pairs[turn % len(pairs)]]
            if turn % 4 == 0:
                number = (pairs[0][0], 0, 1)[turn // 4 % 3]
                number = as_value(value.dtype.type(number))
                self._padded[value] = known_of(tools, x, number)
            else:
                self._padded[value] = spoilt(tools, x, *pair)
            self._trusted.add(self._padded[value].value.node)


def spoilt(tools, x, first, second):
    """Fill the padding with garbage where nothing is stated about it."""
    keeping, right = tools.inside(x, x.axes), checked(tools, x)
    for _, region in said(tools, x):
        keeping = F.logical_or(keeping, region)
    axis, rank = min(x.axes), x.type.rank
    odd = tools.positions(x.type.shape[axis]) % 2 == 1
    odd = F.expand_dims(odd, tuple(a for a in range(rank) if a != axis))
    value = F.where(keeping & right, x.value, F.where(odd, first, second))
    return replace(x, value=value)


def known_of(tools, x, number):
    """Fill all of the padding with one number, which rules may know."""
    keeping = tools.inside(x, x.axes) & checked(tools, x)
    value = F.where(keeping, x.value, number)
    return replace(x, value=value, fill=dict.fromkeys(x.axes, literal_of(number)[()]))


def checked(tools, x):
    """Whether the padding holds the numbers stated about it."""
    right = as_value(True)
    for number, region in said(tools, x):
        same = x.value == as_value(x.value.dtype.type(number))
        if number != number:
            same = x.value != x.value
        right = F.logical_and(right, F.all(F.logical_or(~region, same)))
    return right


def said(tools, x):
    """Yield each number stated to fill the padding, and the region that it fills."""
    axes_of = {}
    for axis, number in x.fill.items():
        axes_of.setdefault(np.asarray(number, x.value.dtype).tobytes(), []).append(axis)
    for axes in axes_of.values():
        others = tools.inside(x, x.axes - {*axes})
        region = F.logical_and(others, F.logical_not(tools.inside(x, axes)))
        yield x.fill[axes[0]], region


def hostile_function(inputs, outputs, dims=PAD, **options):
    """A padded function with garbage in the padding of each of its nodes."""
    hostile = mock.patch.object(pad, "_PaddingPass", HostilePass)
    with hostile, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return graphc.function(inputs, outputs, dims=dims, **options)
