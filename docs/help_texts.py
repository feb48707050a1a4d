"""Writes graphc/ir/functions/help.txt: what `help` adds to the docstrings of functions.

It is found by calling each function as its samples in tests/samples do: which dtypes
and shapes give which, what is refused, and one short example with its result. Run
`PYTHONPATH=. python docs/help_texts.py` after adding an op and its sample.
"""

import importlib
import inspect
import pathlib
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import numpy as np
import scipy.special

import graphc
import graphc.tensor as gt
from graphc.errors import GraphError
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import FUNCTIONS, HELP, HELP_TEXTS, OF_VALUES
from graphc.ir.types import DTYPES, is_float
from tests.ops.sampling import applied, flat
from tests.samples.spec import Array, Call, Sample

SAMPLES = pathlib.Path(__file__).parents[1] / "tests" / "samples"
TARGET = pathlib.Path(graphc.__file__).parent.joinpath("ir", *HELP_TEXTS)
WIDTH = 88
LINES = 7  # of a printed result
DECIMALS = 4  # of float32, in printed results
BLANK = "<BLANKLINE>"
IMPORTS = ">>> import graphc, graphc.tensor as gt"
OTHERS = ["complex64", "bool"]
FRACTIONS = {"unit", "share", "positive", "square", "definite", "holes"}
FAMILIES = {
    "integers": {n for n, dtype in DTYPES.items() if dtype.kind in "iu"},
    "floats": {n for n, dtype in DTYPES.items() if is_float(dtype)},
    "complex": {n for n, dtype in DTYPES.items() if dtype.kind == "c"},
}

BY_HAND = {  # where the arrays of the samples are too large, or made on the way
    "astype": "gt.astype([1.5, -2.5], 'int32')",
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


class Unfit(Exception):
    """A call that no short example can be made of."""


class Known(Exception):
    """Ends a call of a sample as soon as the arguments of the function are known."""


@dataclass(frozen=True)
class Case:
    """A call of a sample, with one of its dtypes, and perhaps with other numbers."""

    sample: Sample
    call: Call
    dtype: str
    values: str = ""

    def array(self, spec: Array) -> Any:
        """The array of a description."""
        return replace(spec, values=self.values or spec.values).make(self.dtype)

    def recorded(self, name: str, make: Callable[[Array], Any]) -> Call:
        """The arguments that the function itself is given, which a sample may turn."""
        function = FUNCTIONS[name]
        found: list[Call] = []

        def watch(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and frame.f_code is function.__code__:
                found.append(_arguments(function, frame.f_locals))
                raise Known

        sys.setprofile(watch)
        try:
            applied(self.sample.function(), self.call, make)
        except Known:
            return found[0]
        except Exception as error:
            raise Unfit from error
        finally:
            sys.setprofile(None)
        raise Unfit


def _arguments(function: Any, given: dict[str, Any]) -> Call:
    """A call as users write it: by name where there is a default, and only others."""
    signature = inspect.signature(function, follow_wrapped=False)
    args: list[Any] = []
    options: dict[str, Any] = {}
    for p in signature.parameters.values():
        value = given[p.name]
        if p.kind is p.VAR_POSITIONAL:
            args += value
        elif p.kind is p.VAR_KEYWORD:
            options |= value
        elif value is not p.default:
            named = p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY
            if named or p.kind is p.KEYWORD_ONLY:
                options[p.name] = value
            else:
                args.append(value)
    return Call(tuple(args), options)


def public_names() -> list[list[str]]:
    """The names of each public function, that under which it joined first."""
    found: dict[int, list[str]] = {}
    for name, function in FUNCTIONS.items():
        if not name.split(".")[-1].startswith("_") and name not in OF_VALUES:
            found.setdefault(id(function), []).append(name)
    return list(found.values())


def samples_by_name() -> dict[str, list[Sample]]:
    """All samples of each function."""
    found: dict[str, list[Sample]] = {}
    for path in sorted(SAMPLES.glob("*.py")):
        module = importlib.import_module(f"tests.samples.{path.stem}")
        for sample in getattr(module, "SAMPLES", ()):
            found.setdefault(sample.name, []).append(sample)
    return found


def own_text(name: str) -> str:
    """The docstring as it is written, without what `help` adds."""
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    return text.removesuffix(HELP.get(name, "")).rstrip()


# What an example shows


def literal(arg: Any) -> str:
    """An argument as a user writes it; keys of random numbers by their function."""
    if isinstance(arg, np.ndarray) and arg.dtype == np.uint32 and arg.shape == (2,):
        return f"gt.random.key({arg[1]})"
    if isinstance(arg, (np.ndarray, np.generic)):
        return literal(arg.tolist())
    if isinstance(arg, np.dtype):
        return repr(arg.name)
    if type(arg) in (list, tuple):
        items = ", ".join(map(literal, arg))
        items += "," * (type(arg) is tuple and len(arg) == 1)
        return f"[{items}]" if type(arg) is list else f"({items})"
    if type(arg) is float:
        return repr(float(f"{arg:.2g}"))
    if arg is None or isinstance(arg, (int, complex, str)):
        return repr(arg)
    raise Unfit


def written(name: str, call: Call) -> str:
    """A call as a user writes it."""
    options = [f"{k}={literal(v)}" for k, v in call.options.items()]
    return f"gt.{name}({', '.join([*map(literal, call.args), *options])})"


def _printable(result: Any) -> bool:
    """Whether a result is there, and of numbers that any machine prints alike."""
    for item in flat(result):
        array = np.asarray(item)
        if not array.size:
            return False
        if array.dtype.kind in "fc":
            tiny = (abs(array) < 1e-7) & (array != 0)
            if not np.isfinite(array).all() or tiny.any():
                return False
    return True


def _inexact(result: Any) -> bool:
    """Whether an array is printed with digits that differ between processors.

    Of float32 all digits are printed, of float64 the first eight.
    """
    if not isinstance(result, np.ndarray) or result.dtype.char not in "efF":
        return False
    return bool((result != result.round(DECIMALS)).any())


def typing(statement: str) -> list[str]:
    """The lines in which a call is typed."""
    if len(statement) <= WIDTH - 8:
        return [f">>> {statement}"]
    head, _, rest = statement.partition("(")
    inner = textwrap.wrap(rest.removesuffix(")"), WIDTH - 12, break_on_hyphens=False)
    if len(inner) > LINES:
        raise Unfit
    return [f">>> {head}(", *[f"...     {line}" for line in inner], "... )"]


def computed(expression: str) -> tuple[str, str]:
    """The lines of an example: what is typed and what it prints."""
    imports = f"{IMPORTS}, numpy as np" if "np." in expression else IMPORTS
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = eval(expression, {"gt": gt, "np": np})
            typed = typing(expression)
            if any(isinstance(v, Value) for v in flat(made)):
                made = graphc.function([], made, backend="numpy")()
                rounding = f".round({DECIMALS})" if _inexact(made) else ""
                typed = typing(f"y = {expression}")
                typed.append(f'>>> graphc.function([], y, backend="numpy")(){rounding}')
            fits = _printable(made)
    except Exception as error:
        raise Unfit from error
    printed = repr(made.round(DECIMALS) if _inexact(made) else made)
    lines = [line or BLANK for line in printed.splitlines()]
    if not fits or max(map(len, lines)) > WIDTH or len(lines) > LINES:
        raise Unfit
    return "\n".join([imports, *typed]), "\n".join(lines)


def cases(samples: list[Sample]) -> Iterator[Case]:
    """Calls to make an example of, the plainest first."""
    numbers = ["int64", "float32", "float64"]
    for dtypes, values in ((numbers, ""), (numbers[1:], "share"), (OTHERS, "")):
        for sample in samples:
            for call in sorted(sample.calls, key=_unlikeness):
                kinds = {arg.values for arg in call.args if isinstance(arg, Array)}
                order = dtypes[1:] + dtypes[:1] if kinds & FRACTIONS else dtypes
                if not values or kinds:
                    yield from (
                        Case(sample, call, dtype, values)
                        for dtype in order
                        if dtype in sample.dtypes
                    )


def _unlikeness(call: Call) -> tuple[bool, bool, int]:
    """How far the arrays of a call are from those of a good example."""
    arrays = [arg for arg in call.args if isinstance(arg, Array)]
    sizes = [int(np.prod(x.shape)) for x in arrays] or [3]
    special = any(x.values in ("special", "across", "large", "holes") for x in arrays)
    return special, max(sizes) < 3 or not min(sizes), abs(max(sizes) - 4)


def example(name: str, samples: list[Sample]) -> str:
    """A short call with its result; "" where no sample gives one."""
    if name in BY_HAND:
        return "\n".join(computed(BY_HAND[name]))
    for case in cases(samples):
        try:
            call = case.recorded(name, case.array)
            return "\n".join(computed(written(name, call)))
        except Unfit:
            continue
    return ""


# What is accepted and what is refused


def built(name: str, call: Call) -> list[Any] | None:
    """The results of a call; None where it is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return flat(FUNCTIONS[name](*call.args, **call.options))
    except (GraphError, TypeError, ValueError, NotImplementedError):
        return None


def variables(dtype: str, symbolic: bool = False) -> Callable[[Array], Value]:
    """Variables for the arrays of a call."""

    def make(spec: Array) -> Value:
        shape = (None,) * len(spec.shape) if symbolic else spec.shape
        return gt.tensor("x", spec.dtype or dtype, shape)

    return make


def dtypes(name: str, samples: list[Sample]) -> tuple[str, list[str]]:
    """Which dtypes give which, as a sentence, and those that are refused."""
    for sample in samples:
        for call in sample.calls:
            found = _results(name, sample, call)
            if any(found.values()):
                refused = [dtype for dtype, given in found.items() if not given]
                return _dtype_sentence(found), refused
    return _made_dtypes(name, samples), []


def _made_dtypes(name: str, samples: list[Sample]) -> str:
    """The dtypes of the results of a function that takes arrays of one kind or none."""
    choice = "dtype" in inspect.signature(FUNCTIONS[name]).parameters
    for given, values in applications(name, samples):
        if choice and ("dtype" in given.options or name.startswith("random.")):
            return "the result is of `dtype`"
        made = ", ".join(dict.fromkeys(v.dtype.name for v in values))
        return f"the result is of {made}{', or of `dtype`' if choice else ''}"
    return ""


def _results(name: str, sample: Sample, call: Call) -> dict[str, str]:
    """The dtypes of the results for each dtype of the arrays; "" where refused."""
    found: dict[str, str] = {}
    for dtype in DTYPES:
        try:
            given = Case(sample, call, dtype).recorded(name, variables(dtype))
        except Unfit:
            return {}
        arrays = [v for v in flat([given.args, given.options]) if _varies(v, dtype)]
        if not arrays:
            return {}
        values = built(name, given) or []
        results = [v.dtype.name for v in values if isinstance(v, Value)]
        found[dtype] = ", ".join(dict.fromkeys(results))
    return found


def _varies(arg: Any, dtype: str) -> bool:
    return isinstance(arg, Value) and arg.dtype.name == dtype


def _dtype_sentence(found: dict[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for dtype, given in found.items():
        if given:
            groups.setdefault("" if given == dtype else given, []).append(dtype)
    kept = groups.pop("", [])
    parts = [f"{listed(of)} -> {to}" for to, of in groups.items()]
    return "; ".join([*parts, *[f"{listed(kept)} unchanged"] * bool(kept)])


def listed(names: list[str]) -> str:
    """Names of dtypes; where a whole family is there, its name."""
    left = dict.fromkeys(names)
    for family, members in FAMILIES.items():
        if members <= set(left):
            kept = [family if n == min(members) else n for n in left]
            left = dict.fromkeys(n for n in kept if n not in members)
    return ", ".join(left)


def shapes(name: str, samples: list[Sample]) -> str:
    """Which shapes give which, in one or two of the calls."""
    found: list[str] = []
    for given, values in applications(name, samples):
        try:
            of = _shapes_of(given)
        except Unfit:
            continue
        told = f"{of} -> {', '.join(map(_shape_of, values))}"
        if "(" in of and told not in found:
            found.append(told)
        if len(found) == 2:
            break
    return "; ".join(found)


def applications(
    name: str, samples: list[Sample], symbolic: bool = False
) -> Iterator[tuple[Call, list[Value]]]:
    """The calls that are accepted, the plainest of each sample first, and results."""
    for sample in samples:
        usual = [t for t in ("float32", "int64", "complex64") if t in sample.dtypes]
        for call in sorted(sample.calls, key=_unlikeness):
            for dtype in usual or sample.dtypes:
                make = variables(dtype, symbolic)
                try:
                    given = Case(sample, call, dtype).recorded(name, make)
                except Unfit:
                    continue
                made = built(name, given) or []
                values = [v for v in made if isinstance(v, Value)]
                if values:
                    yield given, values
                    break


def _shapes_of(call: Call) -> str:
    options = [f"{k}={_shape_of(v)}" for k, v in call.options.items()]
    return ", ".join([*map(_shape_of, call.args), *options])


def _shape_of(arg: Any) -> str:
    if isinstance(arg, Value):
        sizes = [str(n) for n in arg.type.shape]
        return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
    if type(arg) is list:
        return f"[{', '.join(map(_shape_of, arg))}]"
    return literal(arg)


def raised(name: str, samples: list[Sample], refused: list[str]) -> str:
    """Which errors there are, as far as calls of the samples show them."""
    refusals = [listed(refused)] if refused else []
    if _refuses_misuse(name):
        refusals.append("what is no array, number or size")
    told = [f"GraphError for {' and '.join(refusals)}"] if refusals else []
    if _guarded(name, samples):
        told.append("CallError at a call whose sizes do not fit")
    return "; ".join(told)


def _refuses_misuse(name: str) -> bool:
    """Whether an object that is nothing of ours is refused by our own error."""
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind < p.KEYWORD_ONLY]
    try:
        FUNCTIONS[name](*[object() for _ in needed])
    except Exception as error:
        return isinstance(error, GraphError)
    return False


def _guarded(name: str, samples: list[Sample]) -> bool:
    """Whether sizes that are known only at a call are compared there."""
    return any(
        any(node.guards for node in ancestors(values))
        for _, values in applications(name, samples, symbolic=True)
    )


def library(name: str, samples: list[Sample]) -> str:
    """The function of NumPy or SciPy that samples compare with, "" if there is none."""
    for sample in samples:
        short = name.split(".")[-1]
        if sample.numpy is not None:
            if sample.numpy is getattr(scipy.special, short, None):
                return f"scipy.special.{short}"
        elif sample.ours is None:
            return f"numpy.{sample.name}"
    return ""


# The whole text


def section(names: list[str], samples: list[Sample]) -> str:
    """What is added to the docstring of one function."""
    name, text = names[0], own_text(names[0])
    other = ", ".join(f"`gt.{n}`" for n in names[1:])
    as_ = library(name, samples)
    sentence, refused = dtypes(name, samples)
    known = {
        "Also": other,
        "See": "" if f"`{as_}`" in text or not as_ else f"`{as_}`",
        "Dtypes": sentence,
        "Shapes": shapes(name, samples),
        "Raises": raised(name, samples, refused),
    }
    lines = [wrapped(f"{title}: {told}.") for title, told in known.items() if told]
    shown = "" if ">>> " in text else example(name, samples)
    return "\n\n".join(filter(None, ["\n".join(lines), shown]))


def wrapped(text: str) -> str:
    """A line of the section; where it is too long, on several."""
    return textwrap.fill(text, WIDTH - 4, subsequent_indent="    ")


def sections() -> dict[str, str]:
    """What is added, by the name under which a function joined."""
    samples = samples_by_name()
    return {
        names[0]: section(names, [s for n in names for s in samples.get(n, [])])
        for names in sorted(public_names())
    }


def texts() -> str:
    """The whole of the file."""
    return "".join(f"## {name}\n{text}\n" for name, text in sections().items())


if __name__ == "__main__":
    TARGET.write_text(texts(), encoding="utf-8")
