"""The params of a step, split into their form and the integers in them."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphc.errors import GraphError
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.unrolled.records import Moving
from graphc.ir.graph.op import Opaque, Primitive
from graphc.ir.graph.structure import param_form
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size, Symbol, symbol_dim


@dataclass(frozen=True)
class _OpaqueParam:
    """A body, or a text, which equals those of the same form."""

    form: Hashable
    param: Opaque = field(compare=False)


def split_params(params: Mapping[str, Param]) -> tuple[Hashable, tuple[Moving, ...]]:
    """Split params into their form and the integers in them.

    Raises Unsupported for params that are not data.
    """
    integers = list[int]()
    return _form(tuple(params.items()), integers), tuple(map(Moving, integers))


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


def joined_params(form: Hashable, integers: Iterable[Size]) -> dict[str, Any]:
    """The params of a form with these integers: the inverse of `split_params`."""
    return dict(_param(form, iter(integers)))


def are_sizes(primitive: Primitive, form: Hashable, count: int) -> tuple[bool, ...]:
    """Whether each of the `count` integers in params of a form may be any size."""
    size = symbol_dim(Symbol("size"))
    answers = list[bool]()
    for place in range(count):
        integers: list[Size] = [0] * count
        integers[place] = size
        try:
            primitive.kinds.checked(joined_params(form, integers))
        except GraphError:
            answers.append(False)
        else:
            answers.append(True)
    return tuple(answers)


def _param(form: object, integers: Iterator[Size]) -> Any:
    if form is int:
        return next(integers)
    if isinstance(form, _OpaqueParam):
        return form.param
    if isinstance(form, tuple):
        return tuple([_param(item, integers) for item in form[1:]])
    return form
