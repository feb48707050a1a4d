"""Discrete Fourier transforms: `gt.fft`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F
from graphc.ir.public_calls import getattr_of_space

if TYPE_CHECKING:
    from graphc.ir.functions.fft import *  # noqa: F403
else:
    __getattr__ = getattr_of_space("fft")
    __dir__ = F.fft.__dir__
