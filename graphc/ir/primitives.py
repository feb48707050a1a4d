"""The primitives by name: `OP.where` is the primitive `where`.

Code tells ops apart by identity: `node.primitive is OP.where`. A name that no primitive
has is an error, for type checkers too.
"""

from typing import TYPE_CHECKING, Any

REGISTRY: dict[str, Any] = {}

if TYPE_CHECKING:
    from graphc.ir.functions.primitives import Primitives
else:

    class Primitives:
        """Attribute access to the primitives; `assert_` is the one named `assert`."""

        def __getattr__(self, name: str) -> Any:
            primitive = REGISTRY.get(name.removesuffix("_"))
            if primitive is None:
                raise AttributeError(f"there is no primitive {name!r}")
            setattr(self, name, primitive)
            return primitive


OP = Primitives()
