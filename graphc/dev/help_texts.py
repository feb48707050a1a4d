"""The text of graphc/ir/functions/help.txt, which `help` adds to docstrings.

It comes from calling each function as its samples in tests/samples do: which dtypes and
shapes give which, what is refused, and one short example with its result. Run
`python -m graphc.dev regenerate help` after adding an op and its sample.
"""

import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator

import scipy.special

import graphc.tensor as gt
from graphc.dev.help_cases import (
    Case,
    UnfitCall,
    public_names,
    samples_by_name,
    unlikeness,
)
from graphc.dev.help_examples import WIDTH, example, literal
from graphc.errors import GraphError
from graphc.ir.graph.build import shape_text
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import FUNCTIONS, WRITTEN
from graphc.ir.types import DTYPES, is_float
from tests.ops.sampling import flat
from tests.samples.spec import Array, Call, Sample

FAMILIES = {
    "integers": {n for n, dtype in DTYPES.items() if dtype.kind in "iu"},
    "floats": {n for n, dtype in DTYPES.items() if is_float(dtype)},
    "complex": {n for n, dtype in DTYPES.items() if dtype.kind == "c"},
}


def own_text(name: str) -> str:
    """The docstring as it is written, without the text that `help` adds."""
    return WRITTEN.get(name) or inspect.getdoc(FUNCTIONS[name]) or ""


def results_of(name: str, call: Call) -> list[object] | None:
    """The results of a call; None if the call is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return flat(FUNCTIONS[name](*call.args, **call.options))
    except (GraphError, TypeError, ValueError, NotImplementedError):
        return None


def variables(dtype: str, symbolic: bool = False) -> Callable[[Array], Value]:
    """Return a function that makes a variable for an array of a call."""

    def make(spec: Array) -> Value:
        shape = (None,) * len(spec.shape) if symbolic else spec.shape
        return gt.tensor("x", spec.dtype or dtype, shape)

    return make


def dtype_sentence(name: str, samples: list[Sample]) -> tuple[str, list[str]]:
    """A sentence about which dtypes give which, and the dtypes that are refused."""
    for sample in samples:
        for call in sample.calls:
            results = _results(name, sample, call)
            if any(results.values()):
                refused = [dtype for dtype, result in results.items() if not result]
                return _sentence_from_results(results), refused
    return _made_dtypes(name, samples), []


def _made_dtypes(name: str, samples: list[Sample]) -> str:
    """The dtypes of the results of a function that takes one kind of array or none."""
    choice = "dtype" in inspect.signature(FUNCTIONS[name]).parameters
    for call, values in applications(name, samples):
        if choice and ("dtype" in call.options or name.startswith("random.")):
            return "the result is of `dtype`"
        names = ", ".join(dict.fromkeys(v.dtype.name for v in values))
        return f"the result is of {names}{', or of `dtype`' if choice else ''}"
    return ""


def _results(name: str, sample: Sample, call: Call) -> dict[str, str]:
    """The dtypes of the results for each dtype of the arrays; "" if that is refused."""
    results_by_dtype: dict[str, str] = {}
    for dtype in DTYPES:
        try:
            recorded = Case(sample, call, dtype).recorded(name, variables(dtype))
        except UnfitCall:
            return {}
        arguments = flat([recorded.args, recorded.options])
        if not any(_varies(argument, dtype) for argument in arguments):
            return {}
        values = results_of(name, recorded) or []
        results = [v.dtype.name for v in values if isinstance(v, Value)]
        results_by_dtype[dtype] = ", ".join(dict.fromkeys(results))
    return results_by_dtype


def _varies(arg: object, dtype: str) -> bool:
    return isinstance(arg, Value) and arg.dtype.name == dtype


def _sentence_from_results(result_by_dtype: dict[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for dtype, result in result_by_dtype.items():
        if result:
            groups.setdefault("" if result == dtype else result, []).append(dtype)
    unchanged = groups.pop("", [])
    parts = [f"{dtype_list(of)} -> {to}" for to, of in groups.items()]
    return "; ".join(
        [*parts, *[f"{dtype_list(unchanged)} unchanged"] * bool(unchanged)]
    )


def dtype_list(names: list[str]) -> str:
    """The names of dtypes, with a family's name for all of its members."""
    remaining = dict.fromkeys(names)
    for family, members in FAMILIES.items():
        if members <= set(remaining):
            shortened = [family if n == min(members) else n for n in remaining]
            remaining = dict.fromkeys(n for n in shortened if n not in members)
    return ", ".join(remaining)


def shape_sentence(name: str, samples: list[Sample]) -> str:
    """Tell which shapes give which, from one or two of the calls."""
    sentences: list[str] = []
    for recorded, values in applications(name, samples):
        try:
            of = _shapes_of(recorded)
        except UnfitCall:
            continue
        call = f"{of} -> {', '.join(map(_shape_of, values))}"
        if "(" in of and call not in sentences:
            sentences.append(call)
        if len(sentences) == 2:
            break
    return "; ".join(sentences)


def applications(
    name: str, samples: list[Sample], symbolic: bool = False
) -> Iterator[tuple[Call, list[Value]]]:
    """Yield accepted calls with their results, the plainest of each sample first."""
    for sample in samples:
        usual = [t for t in ("float32", "int64", "complex64") if t in sample.dtypes]
        for call in sorted(sample.calls, key=unlikeness):
            for dtype in usual or sample.dtypes:
                make = variables(dtype, symbolic)
                try:
                    recorded = Case(sample, call, dtype).recorded(name, make)
                except UnfitCall:
                    continue
                results = results_of(name, recorded) or []
                values = [v for v in results if isinstance(v, Value)]
                if values:
                    yield recorded, values
                    break


def _shapes_of(call: Call) -> str:
    options = [f"{k}={_shape_of(v)}" for k, v in call.options.items()]
    return ", ".join([*map(_shape_of, call.args), *options])


def _shape_of(arg: object) -> str:
    if isinstance(arg, Value):
        return shape_text(arg.type.shape)
    if type(arg) is list:
        return f"[{', '.join(map(_shape_of, arg))}]"
    return literal(arg)


def error_sentence(name: str, samples: list[Sample], refused: list[str]) -> str:
    """Tell which errors there are, as far as calls of the samples show them."""
    refusals = [dtype_list(refused)] if refused else []
    if _refuses_misuse(name):
        refusals.append("anything that is not an array, number or size")
    errors = [f"GraphError for {' and '.join(refusals)}"] if refusals else []
    if _is_guarded(name, samples):
        errors.append("CallError at a call whose sizes do not fit")
    return "; ".join(errors)


def _refuses_misuse(name: str) -> bool:
    """Whether a GraphError refuses arguments that are plain objects."""
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind < p.KEYWORD_ONLY]
    try:
        FUNCTIONS[name](*[object() for _ in needed])
    except Exception as error:
        return isinstance(error, GraphError)
    return False


def _is_guarded(name: str, samples: list[Sample]) -> bool:
    """Whether sizes that are known only at a call are compared there."""
    return any(
        any(node.guards for node in ancestors(values))
        for _, values in applications(name, samples, symbolic=True)
    )


def library(name: str, samples: list[Sample]) -> str:
    """The NumPy or SciPy function that samples compare with, "" if there is none."""
    for sample in samples:
        short = name.split(".")[-1]
        if sample.numpy is not None:
            if sample.numpy is getattr(scipy.special, short, None):
                return f"scipy.special.{short}"
        elif sample.ours is None:
            return f"numpy.{sample.name}"
    return ""


def section(names: list[str], samples: list[Sample]) -> str:
    """The text that is added to the docstring of one function."""
    name, text = names[0], own_text(names[0])
    other = ", ".join(f"`gt.{n}`" for n in names[1:])
    as_ = library(name, samples)
    sentence, refused = dtype_sentence(name, samples)
    known = {
        "Also": other,
        "See": "" if f"`{as_}`" in text or not as_ else f"`{as_}`",
        "Dtypes": sentence,
        "Shapes": shape_sentence(name, samples),
        "Raises": error_sentence(name, samples, refused),
    }
    lines = [wrapped_line(f"{title}: {part}.") for title, part in known.items() if part]
    shown = "" if ">>> " in text else example(name, samples)
    return "\n\n".join(filter(None, ["\n".join(lines), shown]))


def wrapped_line(text: str) -> str:
    """A line of the section, wrapped if it is too long."""
    return textwrap.fill(text, WIDTH - 4, subsequent_indent="    ")


def sections() -> dict[str, str]:
    """The added texts, by the name under which each function first joined."""
    samples = samples_by_name()
    return {
        names[0]: section(names, [s for n in names for s in samples.get(n, [])])
        for names in sorted(public_names())
    }


def text() -> str:
    """The text of the whole file."""
    return "".join(f"## {name}\n{text}\n" for name, text in sections().items())
