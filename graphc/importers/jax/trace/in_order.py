"""Structures whose dicts keep the order of their keys, which JAX would sort.

Code for NumPy sees a dict in the order in which it was written. Inside a structure,
each dict is replaced by one of a class that JAX does not sort; when taken out, it is a
plain dict again.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef


class InOrder(dict[Hashable, Any]):
    """A dict whose keys keep the caller's order, as a node of structures."""


class InOrderByDefault(defaultdict[Hashable, Any]):
    """A `defaultdict` whose keys keep the caller's order."""


_Keys = tuple[Hashable, ...]
_Default = tuple[Callable[[], object] | None, _Keys]
_PLAIN = dict, defaultdict


def in_order(tree: object) -> object:
    """Replace each dict in a structure by one that keeps its order."""
    leaves, form = jax.tree.flatten(tree, is_leaf=_is_plain)
    if not any(map(_is_plain, leaves)):
        return tree
    return jax.tree.unflatten(form, map(_node_in_order, leaves))


def keywords_in_order(
    named: Mapping[str, object], parameters: Iterable[str]
) -> Mapping[Any, object]:
    """Keyword arguments: parameters sorted, then others in the caller's order."""
    known = [name for name in sorted(parameters) if name in named]
    others = [name for name in named if name not in known]
    inner = InOrder((name, in_order(named[name])) for name in [*known, *others])
    return inner if others else dict(inner)


def sorted_places(form: "PyTreeDef", first: int = 0) -> list[int]:
    """The positions of the leaves, with the keys of all dicts sorted as in JAX."""
    node = form.node_data()
    if node is None:
        return [first]
    kind, data = node
    parts = []
    for child in form.children():
        parts.append(sorted_places(child, first))
        first += child.num_leaves
    if kind in (InOrder, InOrderByDefault):
        keys = data if kind is InOrder else data[1]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        parts = [parts[i] for i in order]
    return list(chain.from_iterable(parts))


def with_keys_sorted(form: "PyTreeDef") -> object:
    """The form that JAX gives such a structure."""
    if not _keeps_order(form):
        return form
    return jax.tree.structure(form.unflatten(range(form.num_leaves)))


def _keeps_order(form: "PyTreeDef") -> bool:
    kind, _ = form.node_data() or (None, None)
    keeps_order = kind in (InOrder, InOrderByDefault)
    return keeps_order or any(map(_keeps_order, form.children()))


def _is_plain(node: object) -> bool:
    return type(node) in _PLAIN


def _node_in_order(node: object) -> object:
    """The node itself, or, for a plain dict, one that keeps its order."""
    if isinstance(node, defaultdict) and _is_plain(node):
        items = {key: in_order(item) for key, item in node.items()}
        return InOrderByDefault(node.default_factory, items)
    if isinstance(node, dict) and _is_plain(node):
        return InOrder({key: in_order(item) for key, item in node.items()})
    return node


def _with_keys(node: Mapping[Hashable, object]) -> list[tuple[object, object]]:
    return [(jax.tree_util.DictKey(key), item) for key, item in node.items()]


def _plain_dict(keys: _Keys, items: Iterable[object]) -> dict[Hashable, object]:
    return dict(zip(keys, items, strict=True))


def _plain_defaultdict(
    how: _Default, items: Iterable[object]
) -> defaultdict[Hashable, object]:
    factory, keys = how
    return defaultdict(factory, zip(keys, items, strict=True))


jax.tree_util.register_pytree_with_keys(
    InOrder,
    lambda node: (_with_keys(node), tuple(node)),
    _plain_dict,  # type: ignore[arg-type]  # the class stays within the structure
    lambda node: (tuple(node.values()), tuple(node)),
)
jax.tree_util.register_pytree_with_keys(
    InOrderByDefault,
    lambda node: (_with_keys(node), (node.default_factory, tuple(node))),
    _plain_defaultdict,  # type: ignore[arg-type]
    lambda node: (tuple(node.values()), (node.default_factory, tuple(node))),
)
