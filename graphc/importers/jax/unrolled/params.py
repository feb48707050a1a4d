"""The params of a step, split into their form and the integers in them."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.op import Opaque
from graphc.ir.graph.structure import param_form
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size


@dataclass(frozen=True)
class _OpaqueParam:
    """A body, or a text, which equals those of the same form."""

    form: Hashable
    param: Opaque = field(compare=False)


def split_params(params: Mapping[str, Param]) -> tuple[Hashable, tuple[int, ...]]:
    """Split params into their form and the integers in them.

    Raises Unsupported for params that are not data.
    """
    integers = list[int]()
    return _form(tuple(params.items()), integers), tuple(integers)


def _form(param: object, integers: list[int]) -> Hashable:
    if type(param) is int:
        integers.append(param)
        return int
    if isinstance(param, tuple):
        return (tuple, *[_form(item, integers) for item in param])
    if isinstance(param, Opaque):
        form = param_form(param)
        if form is param and not isinstance(param.content, str):
            raise Unsupported(f"no loop can hold a {param.name}")
        return _OpaqueParam(form, param)
    if not isinstance(param, Hashable):
        raise Unsupported(f"no loop can hold a {type(param).__name__}")
    return param


def joined_params(form: Hashable, integers: Sequence[Size]) -> dict[str, Any]:
    """The params of a form with these integers: the inverse of `split_params`."""
    return dict(_param(form, iter(integers)))


def _param(form: object, integers: Iterator[Size]) -> Any:
    if form is int:
        return next(integers)
    if isinstance(form, _OpaqueParam):
        return form.param
    if isinstance(form, tuple):
        return tuple([_param(item, integers) for item in form[1:]])
    return form
