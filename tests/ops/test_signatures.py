"""Our functions take NumPy's arguments, with the same names and defaults."""

import inspect
import pydoc

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.namespace import FUNCTIONS

# These say where and how NumPy stores an array. `dtype` has another default here.
STORAGE = {"out", "casting", "order", "subok", "like", "device", "copy", "dtype"}
ONLY_SOME = {"where", "initial"}  # elements: gt.where does it too
ABSENT = {  # and why
    "argpartition": {"kind"},  # there is one algorithm
    "argsort": {"kind"},
    "array": {"ndmin", "ndmax"},  # x[None] does it too
    "clip": {"a_min", "a_max"},  # older names of min and max
    "einsum_path": {"einsum_call"},  # NumPy's internal one
    "isin": {"kind"},
    "partition": {"kind"},
    "polyfit": {"full"},  # gt.linalg.lstsq returns the rest
    "sort": {"kind"},
}
OVERWRITTEN = {"overwrite_input"}  # values never change
DEFAULTS = {
    ("argsort", "stable"): True,  # always; NumPy's None leaves it open
    ("sort", "stable"): True,
    ("einsum", "optimize"): "auto",
    ("permute_dims", "axes"): inspect.Parameter.empty,  # as in the array API
}
REMOVED = {"corrcoef": ("bias", "ddof")} | dict.fromkeys(
    ("nanpercentile", "nanquantile", "percentile", "quantile"), ("interpolation",)
)
SPACES = {"": np, "linalg.": np.linalg, "fft.": np.fft}


def common():
    """Yield NumPy's Python functions that we have too, with both signatures."""
    for prefix, module in SPACES.items():
        for name in dir(module):
            theirs, ours = getattr(module, name), FUNCTIONS.get(prefix + name)
            if ours is None or not inspect.isroutine(theirs):
                continue
            try:
                signature = inspect.signature(theirs)
            except ValueError:  # a C function without a signature
                continue
            found = inspect.signature(ours).parameters
            yield prefix + name, signature.parameters, found


COMMON = list(common())


def optional(parameters):
    skipped = STORAGE | ONLY_SOME | OVERWRITTEN
    for name, p in parameters.items():
        if p.default is not p.empty and name not in skipped:
            yield name, p.default


def test_most_functions_are_compared():
    assert len(COMMON) > 150


def test_arguments_and_defaults_are_those_of_numpy():
    for name, theirs, ours in COMMON:
        given = dict(optional(theirs))
        for removed in REMOVED.get(name, ()):  # in the newest NumPy
            given.pop(removed, None)
        absent = ABSENT.get(name, set()) & given.keys()
        assert given.keys() - ours.keys() == absent, name
        for argument, default in given.items():
            if argument in ours and default is not np._NoValue:
                expected = DEFAULTS.get((name, argument), default)
                assert repr(ours[argument].default) == repr(expected), (name, argument)


def test_a_shape_of_another():
    x = gt.tensor("x", "int32", ("n", 3))
    outputs = [
        gt.zeros_like(x, shape=(2,)),
        gt.ones_like(x, "int8", x.shape[0]),
        gt.full_like(x, 7, shape=(x.shape[0], 1)),
    ]
    f = graphc.function([x], outputs, backend="numpy")
    zeros, ones, full = f(np.zeros((2, 3), "int32"))
    assert zeros.dtype == np.int32 and zeros.tolist() == [0, 0]
    assert ones.dtype == np.int8 and ones.tolist() == [1, 1]
    assert full.tolist() == [[7], [7]]


def test_help_shows_functions_by_the_names_that_users_call():
    public = [n for n in FUNCTIONS if not n.rpartition(".")[2].startswith("_")]
    for name in public:
        function, space = FUNCTIONS[name], name[: name.rfind(".") + 1]
        if inspect.isfunction(function):
            assert FUNCTIONS[space + function.__name__] is function, name
    shown = pydoc.plain(pydoc.render_doc(gt.sum))
    assert shown.splitlines()[2].startswith("sum(x: ")
