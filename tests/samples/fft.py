"""Discrete Fourier transforms."""

import numpy as np

from tests.samples.spec import ALL, a, call, sample

# NumPy scales float16 transforms by float16 factors: see the family's tests.
NO_HALF = [d for d in ALL if d != "float16"]
ONE = (
    call(a(6)),
    call(a(2, 5), n=4),
    call(a(2, 5), 8, axis=0, norm="ortho"),
    call(a(5, 2), axis=-2, norm="forward"),
    call(a(0, 3), norm="backward"),
    call(a(3), n=1),
    call(a(0)),
    call(a(3), n=0),
    call(a()),
    call(a(3), norm="x"),
    call(a(3), axis=1),
)
TWO = (
    call(a(3, 4)),
    call(a(2, 4, 3), s=(5, 2), axes=(1, 2)),
    call(a(2, 4, 3), s=(-1, 4), axes=(2, 0), norm="ortho"),
    call(a(0, 2, 3), norm="forward"),
    call(a(3, 4), axes=(1,)),
    call(a(3)),
    call(a(3, 4), s=(1, 2, 3), axes=(0, 1)),
)
MANY = (
    *TWO[:4],
    call(a(2, 3, 2, 4)),
    call(a(3, 4), axes=(0, 1, 0)),
    call(a(3), axes=(1,)),
)
SHIFTS = (
    *(call(a(3, 4), axes=axes) for axes in (None, 0, (1,), (-2, 1), ())),
    call(a(0, 3)),
    call(a()),
    call(a(2), axes=1),
)
ULPS = 2**8
MOST = {"dtypes": NO_HALF, "ulps": ULPS}


def in_float32(function):
    """NumPy's frequencies in the default dtype."""
    return lambda n, d=1.0: function(n, d).astype("float32")


SAMPLES = [
    sample("fft.fft", *ONE, **MOST),
    sample("fft.ifft", *ONE, **MOST),
    sample("fft.rfft", *ONE, **MOST),
    sample("fft.irfft", *ONE, **MOST),
    sample("fft.hfft", *ONE, **MOST),
    sample("fft.ihfft", *ONE, **MOST),
    sample("fft.fft2", *TWO, **MOST),
    sample("fft.ifft2", *TWO, **MOST),
    sample("fft.rfft2", *TWO, **MOST),
    sample("fft.irfft2", *TWO, **MOST),
    sample("fft.fftn", *MANY, call(a(3, 4), axes=()), **MOST),
    sample("fft.ifftn", *MANY, **MOST),
    sample("fft.rfftn", *MANY, call(a(3, 4), axes=()), **MOST),
    sample("fft.irfftn", *MANY, **MOST),
    sample("fft.fftshift", *SHIFTS),
    sample("fft.ifftshift", *SHIFTS),
    sample(
        "fft.fftfreq",
        *(call(n) for n in (1, 2, 5)),
        call(6, 0.25),
        numpy=in_float32(np.fft.fftfreq),
        dtypes=["float32"],
    ),
    sample(
        "fft.rfftfreq",
        *(call(n) for n in (1, 2, 5)),
        call(6, d=0.25),
        numpy=in_float32(np.fft.rfftfreq),
        dtypes=["float32"],
    ),
]
