"""Traces of a function at several sizes, as far as they take the same steps.

A function may do something else at some sizes. The sizes of a call are put together
with others that are done alike; for those that are not, there is another program.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphc.importers.jax.subject import Subject
from graphc.importers.jax.template import steps_of
from graphc.importers.jax.tracing import Spec, TracedFunction
from graphc.importers.jax.unsupported import Unsupported, raised, reading

UNLIKE = "its steps depend on the sizes"
PERIOD = 24  # two sizes this far apart are alike in the rests by its divisors


@dataclass(frozen=True)
class Sample:
    """A trace at some sizes."""

    sizes: Mapping[str, int]
    trace: TracedFunction


def sampled(subject: Subject, specs: Sequence[Spec]) -> TracedFunction:
    """The trace at sizes that are numbers. Raises Unsupported where it fails."""
    try:
        return subject.read(specs)
    except Exception as error:  # whatever Python code does with a size
        shown = ", ".join(str(s.shape) for s in specs)
        reason = f"it cannot be traced for {shown}: {raised(error)}"
        raise Unsupported(reason) from error


class _Samples:
    """The first sample, and those of other sizes that take its steps."""

    def __init__(self, subject: Subject, specs: Sequence[Spec], first: Sample) -> None:
        self.alike = [first]
        self.why = Unsupported(UNLIKE)
        self._subject, self._specs = subject, specs
        self._steps = steps_of(first.trace.jaxpr)

    def try_at(self, sizes: Mapping[str, int]) -> None:
        """Trace the function at these sizes, and keep it where it takes the steps."""
        if any(sizes == sample.sizes for sample in self.alike):
            return
        try:
            trace = sampled(self._subject, [s.at(sizes) for s in self._specs])
        except Unsupported as error:
            self.why = error
            return
        if steps_of(trace.jaxpr) == self._steps:
            self.alike.append(Sample(sizes, trace))

    def varies(self, name: str) -> bool:
        """Whether a size has several numbers in the samples."""
        return len({sample.sizes[name] for sample in self.alike}) > 1


def samples_like(
    subject: Subject,
    specs: Sequence[Spec],
    first: Sample,
    seen: Iterable[Mapping[str, int]],
) -> list[Sample]:
    """A sample, and others that take its steps: at multiples, and at sizes `seen`.

    Each size varies in them. Raises Unsupported where no others are found.
    """
    with reading():
        samples = _Samples(subject, specs, first)
        own = first.sizes
        for sizes in (*({**own, name: 2 * n} for name, n in own.items()), *seen):
            samples.try_at(sizes)
        for name, n in own.items():
            if not samples.varies(name):
                samples.try_at({**own, name: n + PERIOD})
    if not all(map(samples.varies, own)):
        raise samples.why
    return samples.alike
