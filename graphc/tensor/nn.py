"""Activations, normalisation, convolution and pooling of neural networks: `gt.nn`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F
from graphc.ir.public_calls import getattr_of_space

if TYPE_CHECKING:
    from graphc.ir.functions.nn import *  # noqa: F403
else:
    __getattr__ = getattr_of_space("nn")
    __dir__ = F.nn.__dir__
