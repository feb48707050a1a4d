"""Activations, normalisation, convolution and pooling of neural networks: `gt.nn`."""

from typing import TYPE_CHECKING

from graphc.ir.doors import entrance
from graphc.ir.namespace import F

if TYPE_CHECKING:
    from graphc.ir.functions.nn import *  # noqa: F403
else:
    __getattr__ = entrance("nn")
    __dir__ = F.nn.__dir__
