"""Special functions, with SciPy's names: `gt.special`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F
from graphc.ir.public_calls import getattr_of_space

if TYPE_CHECKING:
    from graphc.ir.functions.special import *  # noqa: F403
else:
    __getattr__ = getattr_of_space("special")
    __dir__ = F.special.__dir__
