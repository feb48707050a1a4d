"""Activations, normalisation, convolution and pooling of neural networks: `gt.nn`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F

if TYPE_CHECKING:
    from graphc.ir.functions.nn import *  # noqa: F403
else:
    __getattr__ = F.nn.__getattr__
    __dir__ = F.nn.__dir__
