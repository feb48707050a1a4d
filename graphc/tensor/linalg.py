"""Linear algebra: `gt.linalg`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F
from graphc.ir.public_calls import getattr_of_space

if TYPE_CHECKING:
    from graphc.ir.functions.linalg import *  # noqa: F403
else:
    __getattr__ = getattr_of_space("linalg")
    __dir__ = F.linalg.__dir__
