"""Arrays that compute at once, by compiling a program for each operation.

Suites of the Array API call functions on arrays and inspect the results; these arrays
let such suites run on graphs.
"""

from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt


class Eager:
    """An array with the operators and methods of graph values."""

    def __init__(self, array: Any, backend: str = "numpy") -> None:
        self.array, self.backend = np.asarray(array), backend

    def __getattr__(self, name: str) -> Any:
        """Return a property of the value, or a method that computes at once."""
        if name.startswith("_"):
            raise AttributeError(name)
        if callable(getattr(gt.asarray(0.0), name)):
            return lambda *args, **kw: run(
                self.backend, lambda x, *a, **k: getattr(x, name)(*a, **k), self, *args,
                **kw,
            )
        return run(self.backend, lambda x: getattr(x, name), self)

    def __getitem__(self, key: Any) -> "Eager":
        return run(self.backend, lambda x, key: x[key], self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        made = run(self.backend, lambda x, k, v: x.at[k].set(v), self, key, value)
        self.array = made.array


def _operator(name: str) -> Any:
    return lambda self, *args: run(
        self.backend, lambda x, *a: getattr(x, name)(*a), self, *args
    )


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow "
    "matmul rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs "
    "invert eq ne lt le gt ge"
).split():
    setattr(Eager, f"__{_name}__", _operator(f"__{_name}__"))


class Namespace:
    """The functions of `graphc.tensor`, applied to eager arrays."""

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        function = getattr(gt, name)
        return lambda *args, **kw: run(self._backend, function, *args, **kw)


def run(backend: str, function: Any, *args: Any, **options: Any) -> Any:
    """Build a function of eager arrays, compile it, call it, and return its results."""
    inputs, arrays = [], []

    def symbolic(x: Any) -> Any:
        if isinstance(x, Eager):
            inputs.append(gt.tensor(f"x{len(inputs)}", x.array.dtype, x.array.shape))
            arrays.append(x.array)
            return inputs[-1]
        return type(x)(map(symbolic, x)) if isinstance(x, (list, tuple)) else x

    given = [symbolic(x) for x in args]
    found = function(*given, **{name: symbolic(x) for name, x in options.items()})
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    f = graphc.function(inputs, results, backend=backend, unused="ignore")
    made = [Eager(array, backend) for array in f(*arrays)]
    return made if isinstance(found, (list, tuple)) else made[0]
