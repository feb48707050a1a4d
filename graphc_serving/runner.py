"""Take the steps of a model on arrays, with JAX and NumPy."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property
from types import ModuleType
from typing import TypeAlias

import numpy as np

from graphc_serving import loops, private_jax
from graphc_serving.arguments import copy
from graphc_serving.kinds import NDArray, Shape, Shaped
from graphc_serving.loops import Loop
from graphc_serving.manifest import Manifest
from graphc_serving.programs import array_of, compiled
from graphc_serving.reading import Tensors
from graphc_serving.steps import Row, Step, StepError, StepValue, Walk, follow, zeros
from graphc_serving.ufuncs import Computes, on_numbers

Key: TypeAlias = tuple[int, Shape, tuple[Shape, ...]]  # stage, integers, shapes
Program: TypeAlias = Callable[..., Sequence[Shaped]]
_NOTHING: AbstractContextManager[object] = nullcontext()


class NoProgram(Exception):
    """Raised where there is no program for a call, with the sizes read so far."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        self.sizes = sizes


class Runner:
    """The programs of a model, each compiled when it is first asked for."""

    def __init__(
        self, jax: ModuleType, manifest: Manifest, tensors: Tensors, device: object
    ) -> None:
        self.jax = jax
        self._manifest = manifest
        self._tensors = tensors
        self._device = device
        self._places = {p.key: i for i, p in enumerate(manifest.programs)}
        programs = manifest.programs
        dtypes = {v.dtype for p in programs for v in (*p.arguments, *p.outputs)}
        self._has_64 = any(dtype.endswith(("64", "128")) for dtype in dtypes)
        self._put = private_jax.device_put(jax)
        self._sharding = jax.sharding.SingleDeviceSharding(device)
        self._made: dict[Key, Program] = {}

    def settings(self) -> ExitStack:
        """Return a context in which JAX has the bits and the device of the model."""
        stack = ExitStack()
        if self._manifest.wide:
            stack.enter_context(self.jax.enable_x64(True))
        stack.enter_context(self.jax.default_device(self._device))
        return stack

    def bits(self) -> AbstractContextManager[object]:
        """Return a context in which JAX has the bits that the programs' arrays need."""
        return self.jax.enable_x64(True) if self._has_64 else _NOTHING

    @cached_property
    def constants(self) -> list[Shaped]:
        """The constants, put on the device once."""
        names = self._manifest.arguments
        return [self.put(array_of(self._manifest, n, self._tensors)) for n in names]

    def put(self, array: NDArray) -> Shaped:
        """Put an array of NumPy on the device."""
        if self._put is not None:
            placed: Shaped = self._put(array, self._sharding, [self._device], True)
            return placed
        with self.jax.enable_x64(True):  # keeps 64-bit arrays as they are
            placed = self.jax.device_put(array, self._device)
        return placed

    def placed(self, array: Shaped) -> Shaped:
        """Return an array of JAX as it is; copy any other array to the device."""
        is_of_jax = isinstance(array, self.jax.Array)
        return array if is_of_jax else self.put(np.array(array))

    def program(self, key: Key) -> Program | None:
        """The program of a stage for integers and shapes; None where there is none."""
        if key not in self._places:
            return None
        if key not in self._made:
            parts = self.jax, self._manifest, self._places[key], self._tensors
            self._made[key] = compiled(*parts, self.settings)
        return self._made[key]


class Call:
    """One call: it takes the steps, and remembers the sizes that were read.

    Programs are given copies of the caller's arrays, since the caller may write to
    these before the programs run.
    """

    def __init__(self, runner: Runner, arguments: Sequence[object]) -> None:
        self._runner = runner
        self._read: dict[str, int] = {}
        self._own = {id(a) for a in arguments if isinstance(a, np.ndarray)}

    def read(self, array: Shaped, name: str) -> int:
        """Read the integer in an array, the size called `name`."""
        number = self._read[name] = int(np.asarray(array))
        return number

    def number(self, number: float, dtype: str) -> NDArray:
        """Make an array of an integer or a float."""
        try:
            return np.array(number, dtype)
        except OverflowError:
            raise StepError(f"{number} does not fit {dtype}") from None

    def computed(self, function: Computes, operands: Sequence[object]) -> NDArray:
        """Apply a function of NumPy's arrays, element by element."""
        return on_numbers(function, operands)

    def zeros(self, shape: Row, dtype: str) -> NDArray:
        """Make an array of zeros."""
        if any(n < 0 for n in shape):
            raise StepError(f"an array cannot have the shape {shape}")
        return zeros(shape, np.dtype(dtype))

    def holds(self, condition: Shaped) -> Sequence[int]:
        """Return nothing where a condition holds, else the numbers that it tells."""
        flag = np.asarray(condition)
        if flag.ndim:
            return flag.tolist() if flag[0] else ()
        return () if flag else (0,)

    def row(self, step: Step, fixed: Row, sizes: Row) -> Row:
        """The capacities of a row that begins with `fixed` and has room for `sizes`."""
        count = len(fixed)
        for row in step.parts[2]:
            pairs = zip(sizes, row[count:], strict=True)
            if row[:count] == fixed and all(n <= room for n, room in pairs):
                capacities: Row = row[count:]
                return capacities
        raise NoProgram(self._read)

    def padded(self, array: Shaped, shape: Row) -> Shaped:
        """Pad an array with zeros at the end of its axes to this shape."""
        if array.shape == shape:
            return array
        if any(n > room for n, room in zip(array.shape, shape, strict=True)):
            raise NoProgram(self._read)
        result = zeros(shape, array.dtype)
        result[tuple(map(slice, array.shape))] = array
        return result

    def cut(self, array: Shaped, shape: Row) -> Shaped:
        """Cut the padding off an array on the host, so that nothing is compiled."""
        if array.shape == shape:
            return array
        stored = np.asarray(array)
        part = stored[tuple(map(slice, shape))]
        return self._runner.put(part.copy() if 2 * part.size < stored.size else part)

    def steps(self, results: Sequence[Shaped], carries: int, name: str) -> int:
        """Read how many steps a piece of a loop did, and add them to size `name`."""
        count = int(np.asarray(results[carries]))
        self._read[name] = self._read.get(name, 0) + count
        return count

    def goes_on(self, results: Sequence[Shaped], name: str) -> bool:
        """Whether a loop goes on after a piece, as its first carry says."""
        return bool(np.asarray(results[0]))

    def loop(self, loop: Loop, walk: Walk) -> list[Shaped]:
        """Run a loop whose steps are steps of the file."""

        def one(values: Sequence[StepValue]) -> list[Shaped]:
            return follow(loop.body, values, loop.results, self)

        results = loops.run(loop, loops.values_for(loop, walk), one)
        if loop.going is not None:
            self._read[loop.name] = int(np.asarray(results[len(loop.carries)]))
        return results

    def joined(self, pieces: Sequence[Shaped]) -> Shaped:
        """Join the rows of pieces in one array, on the host: nothing is compiled."""
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([np.asarray(piece) for piece in pieces])

    def rows(self, array: Shaped, count: int) -> Shaped:
        """Return `count` rows of an array, with zeros behind the rows it has."""
        if count < 0:
            raise StepError(f"an array cannot have {count} rows")
        padded = zeros((count, *array.shape[1:]), array.dtype)
        stored = np.asarray(array)[:count]
        padded[: len(stored)] = stored
        return self._runner.put(padded)

    def run(self, stage: int, statics: Row, arrays: list[Shaped]) -> Sequence[Shaped]:
        """Run the program of a stage for these integers and shapes."""
        key = stage, statics, tuple([array.shape for array in arrays])
        program = self._runner.program(key)
        if program is None:
            raise NoProgram(self._read)
        return program(*map(self._safe, arrays))

    def _safe(self, array: Shaped) -> Shaped:
        """Copy an array that the caller has; return any other as it is."""
        if isinstance(array, np.ndarray) and id(array) in self._own:
            return copy(array)
        return array
