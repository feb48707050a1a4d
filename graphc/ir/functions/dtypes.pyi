# Written by `python -m graphc.dev regenerate stubs`.

import numpy
from typing import Any

bool: numpy.dtype[Any]
int8: numpy.dtype[Any]
int16: numpy.dtype[Any]
int32: numpy.dtype[Any]
int64: numpy.dtype[Any]
uint8: numpy.dtype[Any]
uint16: numpy.dtype[Any]
uint32: numpy.dtype[Any]
uint64: numpy.dtype[Any]
float16: numpy.dtype[Any]
float32: numpy.dtype[Any]
float64: numpy.dtype[Any]
complex64: numpy.dtype[Any]
complex128: numpy.dtype[Any]
bfloat16: numpy.dtype[Any]
