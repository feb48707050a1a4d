"""The calls for examples of `help`: those of the samples, as functions get them."""

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType, FunctionType
from typing import Any

import numpy as np

import graphc.tensor  # noqa: F401  (lets the functions join)
from graphc.dev.clone import ROOT
from graphc.ir.namespace import FUNCTIONS, OF_VALUES
from tests.ops.sampling import applied
from tests.samples.spec import Array, Call, Sample

SAMPLES = ROOT / "tests" / "samples"


class UnfitCall(Exception):
    """Raised for a call of which no short example can be made."""


class ArgumentsSeen(Exception):
    """Raised to end a call of a sample once the function's arguments are known."""


@dataclass(frozen=True)
class Case:
    """A call of a sample with one of its dtypes, and with other `values` if given."""

    sample: Sample
    call: Call
    dtype: str
    values: str = ""

    def array(self, spec: Array) -> object:
        """Make the array that `spec` describes."""
        return replace(spec, values=self.values or spec.values).make(self.dtype)

    def recorded(self, name: str, make: Callable[[Array], object]) -> Call:
        """The arguments that the function itself gets; samples may change theirs."""
        function = FUNCTIONS[name]
        calls: list[Call] = []

        def watch(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code is function.__code__:
                calls.append(_arguments(function, frame.f_locals))
                raise ArgumentsSeen

        sys.setprofile(watch)
        try:
            applied(self.sample.function(), self.call, make)
        except ArgumentsSeen:
            return calls[0]
        except Exception as error:
            raise UnfitCall from error
        finally:
            sys.setprofile(None)
        raise UnfitCall


def _arguments(function: Callable[..., object], local_values: dict[str, Any]) -> Call:
    """A call as users write it: params with a default by name, unless they have it."""
    args: list[Any] = []
    options: dict[str, Any] = {}
    signature = inspect.signature(_without_decorator(function))
    if list(signature.parameters) == ["args", "named"]:  # it binds arguments itself
        signature = inspect.signature(function)
        bound = signature.bind(*local_values["args"], **local_values["named"])
        bound.apply_defaults()
        local_values = bound.arguments
    for p in signature.parameters.values():
        value = local_values[p.name]
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


def _without_decorator(function: Callable[..., object]) -> Callable[..., object]:
    """A function of the same code, which has no signature but that of the code."""
    assert isinstance(function, FunctionType)
    closure = function.__defaults__, function.__closure__
    plain = FunctionType(function.__code__, function.__globals__, "", *closure)
    plain.__kwdefaults__ = function.__kwdefaults__
    return plain


def public_names() -> list[list[str]]:
    """The names of each public function, the one it first joined under in front."""
    by_identity: dict[int, list[str]] = {}
    for name, function in FUNCTIONS.items():
        if not name.split(".")[-1].startswith("_") and name not in OF_VALUES:
            by_identity.setdefault(id(function), []).append(name)
    return list(by_identity.values())


def samples_by_name() -> dict[str, list[Sample]]:
    """All samples of each function, by name."""
    by_name: dict[str, list[Sample]] = {}
    for path in sorted(SAMPLES.glob("*.py")):
        module = importlib.import_module(f"tests.samples.{path.stem}")
        for sample in getattr(module, "SAMPLES", ()):
            by_name.setdefault(sample.name, []).append(sample)
    return by_name


def unlikeness(call: Call) -> tuple[bool, bool, int]:
    """How far the arrays of a call are from those of a good example."""
    arrays = [arg for arg in call.args if isinstance(arg, Array)]
    sizes = [int(np.prod(x.shape)) for x in arrays] or [3]
    special = any(x.values in ("special", "across", "large", "holes") for x in arrays)
    return special, max(sizes) < 3 or not min(sizes), abs(max(sizes) - 4)
