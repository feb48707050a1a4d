"""Padded programs whose arguments arrive with garbage in their padding."""

import inspect
import warnings
from unittest import mock

import numpy as np

import graphc
from graphc.runtime import pipeline
from graphc.transform.padding.pad import padded

PAD = graphc.Pad(minimum=4, growth=1.3)  # 4, 6, 8, 11: nearly all sizes get padding
RNG = np.random.default_rng(0)
ENTRIES = {
    "with_padding": lambda array, shape: dirtied(array, shape),
    "with_padding_jax": lambda jax, array, shape: dirtied(np.asarray(array), shape),
}


def dirtied(array, shape):
    """The array padded with NaN, infinity and large numbers in place of zeros."""
    if array.shape == tuple(shape):
        return array
    found = RNG.choice(garbage(array.dtype), size=shape)
    found[tuple(map(slice, array.shape))] = array
    return found


def garbage(dtype):
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.max, limits.min, 7], dtype)
    if dtype.kind == "b":
        return np.array([True, False])
    most = float(np.finfo(np.float32 if dtype.itemsize > 2 else np.float16).max)
    return np.array([np.nan, np.inf, -np.inf, most], dtype)


def dirty_function(inputs, outputs, **options):
    """A padded function with garbage in the padding of its arguments."""

    def of_anything(*args, **how):
        return padded(*args, **how | {"clean": False})

    with mock.patch.object(pipeline, "padded", of_anything), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = graphc.function(inputs, outputs, dims=PAD, **options)
    if f.plan.padded is not None and f.plan.padded.lengths:
        program = inspect.unwrap(f._programs.run).__globals__
        entries = ENTRIES.keys() & program.keys()
        assert entries or not any(map(_is_padded, f.plan.padded.graph.inputs, inputs))
        program.update({name: ENTRIES[name] for name in entries})
    return f


def _is_padded(new, old):
    return new is not old


def clean_function(inputs, outputs, **options):
    """A padded function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return graphc.function(inputs, outputs, dims=PAD, **options)
