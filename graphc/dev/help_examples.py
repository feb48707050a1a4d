"""The short example of each function that `help` shows, with its result."""

import textwrap
import warnings
from collections.abc import Iterator

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.dev.help_cases import Case, UnfitCall, unlikeness
from graphc.ir.graph.nodes import Value
from tests.ops.sampling import flat
from tests.samples.spec import Array, Call, Sample

WIDTH = 88
LINES = 7  # at most, of a printed result
DECIMALS = 4  # to which float32 results are rounded
BLANK = "<BLANKLINE>"
IMPORTS = ">>> import graphc, graphc.tensor as gt"
OTHERS = ["complex64", "bool"]
FRACTIONS = {"unit", "share", "positive", "square", "definite", "holes"}

BY_HAND = {  # the samples' arrays are too large, or made by the call
    "astype": "gt.astype([1.5, -2.5], 'int32')",
    **{  # older NumPy returns floats for integers
        name: f"gt.{name}([[1.5, -1.5], [-0.25, 2.75]])"
        for name in ("ceil", "fix", "floor", "trunc")
    },
    "dsplit": "gt.dsplit([[[1, 2, 3]]], [1])",
    "einsum_path": "gt.einsum_path('ij,jk->ik', gt.ones((2, 3)), gt.ones((3, 4)))[0]",
    "fft.ifftn": "gt.fft.ifftn([[4, 0], [0, 0]])",
    "fft.irfft2": "gt.fft.irfft2([[4, 0], [0, 0]])",
    "from_dlpack": "gt.from_dlpack(np.arange(3))",
    "fromfunction": "gt.fromfunction(lambda i, j: i + 2 * j, (2, 3))",
    "linalg.cho_solve": "gt.linalg.cho_solve(([[2.0, 0.0], [1.0, 3.0]], True), [6, 5])",
    "linalg.lstsq": "gt.linalg.lstsq([[1.0, 0.0], [0.0, 2.0]], [3.0, 4.0])[0]",
    "linalg.lu_solve": (
        "gt.linalg.lu_solve(gt.linalg.lu_factor([[4.0, 0.0], [2.0, 1.0]]), [8, 7])"
    ),
    "moveaxis": "gt.moveaxis([[1, 2, 3], [4, 5, 6]], 0, -1)",
    "nn.conv": "gt.nn.conv([[[1.0, 2.0, 4.0, 7.0]]], [[[-1.0, 1.0]]])",
    "nn.conv1d": "gt.nn.conv1d([[[1.0, 2.0, 4.0, 7.0]]], [[[-1.0, 1.0]]])",
    "nn.conv2d": "gt.nn.conv2d(gt.ones((1, 1, 3, 3)), gt.ones((1, 1, 2, 2)))",
    "nn.conv3d": "gt.nn.conv3d(gt.ones((1, 1, 2, 2, 3)), gt.ones((1, 1, 2, 2, 2)))",
    "nn.conv_transpose": "gt.nn.conv_transpose([[[1.0, 2.0]]], [[[1.0, 10.0]]])",
    "nn.dot_product_attention": (
        "gt.nn.dot_product_attention(*[[[[[1.0, 0.0]], [[0.0, 1.0]]]]] * 3)"
    ),
    "permute_dims": "gt.permute_dims([[1, 2, 3], [4, 5, 6]], (1, 0))",
    "piecewise": "gt.piecewise([-1, 2, 3], [gt.asarray([-1, 2, 3]) > 0], [10, 0])",
    "random.f": "gt.random.f(gt.random.key(11), 2.0, 3.0, shape=(2,))",
    "random.wishart": "gt.random.wishart(gt.random.key(11), 3, gt.eye(2))",
    "special.kl_div": "gt.special.kl_div([0.5, 0.2], [0.25, 0.4])",
    "special.owens_t": "gt.special.owens_t([0.5, 1.0], [1.0, 2.0])",
    "special.rel_entr": "gt.special.rel_entr([0.5, 0.2], [0.25, 0.4])",
    "special.xlog1py": "gt.special.xlog1py([0.0, 2.0], [0.5, 1.0])",
    "swapaxes": "gt.swapaxes([[1, 2, 3], [4, 5, 6]], 0, 1)",
    "unstack": "gt.unstack([[1, 2], [3, 4]])",
}


def literal(arg: object) -> str:
    """An argument as a user writes it; random keys as a call of `gt.random.key`."""
    if isinstance(arg, np.ndarray) and arg.dtype == np.uint32 and arg.shape == (2,):
        return f"gt.random.key({arg[1]})"
    if isinstance(arg, (np.ndarray, np.generic)):
        return literal(arg.tolist())
    if isinstance(arg, np.dtype):
        return repr(arg.name)
    if type(arg) is list or type(arg) is tuple:
        items = ", ".join(map(literal, arg))
        items += "," * (type(arg) is tuple and len(arg) == 1)
        return f"[{items}]" if type(arg) is list else f"({items})"
    if type(arg) is float:
        return repr(float(f"{arg:.2g}"))
    if arg is None or isinstance(arg, (int, complex, str)):
        return repr(arg)
    raise UnfitCall


def call_text(name: str, call: Call) -> str:
    """A call as a user writes it."""
    options = [f"{k}={literal(v)}" for k, v in call.options.items()]
    return f"gt.{name}({', '.join([*map(literal, call.args), *options])})"


def _printable(result: object) -> bool:
    """Whether no array is empty, and every machine prints the same numbers."""
    for item in flat(result):
        array = np.asarray(item)
        if not array.size:
            return False
        if array.dtype.kind in "fc":
            tiny = (abs(array) < 1e-7) & (array != 0)
            if not np.isfinite(array).all() or tiny.any():
                return False
    return True


def _inexact(result: object) -> bool:
    """Whether an array is printed with digits that differ between processors.

    All digits of float32 are printed, but only the first eight of float64.
    """
    if not isinstance(result, np.ndarray) or result.dtype.char not in "efF":
        return False
    return bool((result != result.round(DECIMALS)).any())


def typed_lines(statement: str) -> list[str]:
    """The lines in which a user types a call. Raises Unfit if it takes too many."""
    if len(statement) <= WIDTH - 8:
        return [f">>> {statement}"]
    head, _, inside = statement.partition("(")
    inner = textwrap.wrap(inside.removesuffix(")"), WIDTH - 12, break_on_hyphens=False)
    if len(inner) > LINES:
        raise UnfitCall
    return [f">>> {head}(", *[f"...     {line}" for line in inner], "... )"]


def example_lines(expression: str) -> tuple[str, str]:
    """The lines of an example: the input and the output that it prints."""
    imports = f"{IMPORTS}, numpy as np" if "np." in expression else IMPORTS
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = eval(expression, {"gt": gt, "np": np})
            typed = typed_lines(expression)
            if any(isinstance(v, Value) for v in flat(result)):
                result = graphc.function([], result, backend="numpy")()
                rounding = f".round({DECIMALS})" if _inexact(result) else ""
                typed = typed_lines(f"y = {expression}")
                typed.append(f'>>> graphc.function([], y, backend="numpy")(){rounding}')
            fits = _printable(result)
    except Exception as error:
        raise UnfitCall from error
    printed = repr(result.round(DECIMALS) if _inexact(result) else result)
    lines = [line or BLANK for line in printed.splitlines()]
    if not fits or max(map(len, lines)) > WIDTH or len(lines) > LINES:
        raise UnfitCall
    return "\n".join([imports, *typed]), "\n".join(lines)


def cases(samples: list[Sample]) -> Iterator[Case]:
    """Yield the calls to make an example of, the plainest first."""
    numbers = ["int64", "float32", "float64"]
    for dtypes, values in ((numbers, ""), (numbers[1:], "share"), (OTHERS, "")):
        for sample in samples:
            for call in sorted(sample.calls, key=unlikeness):
                kinds = {arg.values for arg in call.args if isinstance(arg, Array)}
                order = dtypes[1:] + dtypes[:1] if kinds & FRACTIONS else dtypes
                if not values or kinds:
                    yield from (
                        Case(sample, call, dtype, values)
                        for dtype in order
                        if dtype in sample.dtypes
                    )


def example(name: str, samples: list[Sample]) -> str:
    """A short call with its result; "" if no sample gives one."""
    if name in BY_HAND:
        return "\n".join(example_lines(BY_HAND[name]))
    for case in cases(samples):
        try:
            call = case.recorded(name, case.array)
            return "\n".join(example_lines(call_text(name, call)))
        except UnfitCall:
            continue
    return ""
