"""Traces of a function at several sizes, as far as they take the same steps.

A function may do something else at some sizes. The sizes of a call are put together
with others that are done alike; for those that are not, there is another program.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from graphc.importers.jax.read.unsupported import Unsupported, raised, reading
from graphc.importers.jax.sizes.template import Template, steps_of, template
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import Spec, TracedFunction

UNLIKE = "its steps depend on the sizes"
PERIOD = 24  # two sizes this far apart are alike in the rests by its divisors


class Unlike(Unsupported):
    """A function whose steps at some sizes are those at no others that were tried.

    Each of these has other steps `everywhere`, where no two of them are alike either.
    """

    def __init__(self, everywhere: bool = False) -> None:
        super().__init__(UNLIKE)
        self.everywhere = everywhere


@dataclass(frozen=True)
class Sample:
    """A trace at some sizes, which may have been `seen` in another call."""

    sizes: Mapping[str, int]
    trace: TracedFunction
    seen: bool = False


def sampled(subject: Subject, specs: Sequence[Spec]) -> TracedFunction:
    """The trace at sizes that are numbers. Raises Unsupported where it fails."""
    try:
        return subject.comparable(subject.read(specs))
    except Exception as error:  # whatever Python code does with a size
        shown = ", ".join(str(s.shape) for s in specs)
        reason = f"it cannot be traced for {shown}: {raised(error)}"
        raise Unsupported(reason) from error


class _Samples:
    """The first sample, and those of other sizes that take its steps."""

    def __init__(self, subject: Subject, specs: Sequence[Spec], first: Sample) -> None:
        self.alike = [first]
        self._failed: Unsupported | None = None
        self._others: list[list[Hashable]] = []  # steps that are not those
        self._subject, self._specs = subject, specs
        self._steps = steps_of(first.trace.jaxpr)

    def try_at(self, sizes: Mapping[str, int], seen: bool = False) -> None:
        """Trace the function at these sizes, and keep it where it takes the steps."""
        if any(sizes == sample.sizes for sample in self.alike):
            return
        try:
            trace = sampled(self._subject, [s.at(sizes) for s in self._specs])
        except Unsupported as error:
            self._failed = error
            return
        steps = steps_of(trace.jaxpr)
        if steps == self._steps:
            self.alike.append(Sample(sizes, trace, seen))
        else:
            self._others.append(steps)

    def why(self) -> Unsupported:
        """Why there are not enough samples."""
        if self._failed is not None:
            return self._failed
        pairs = combinations(self._others, 2)
        return Unlike(len(self.alike) == 1 and all(a != b for a, b in pairs))

    def varies(self, name: str) -> bool:
        """Whether a size has several numbers in the samples."""
        return _varies(name, self.alike)


def _varies(name: str, samples: Iterable[Sample]) -> bool:
    return len({sample.sizes[name] for sample in samples}) > 1


def samples_like(
    subject: Subject,
    specs: Sequence[Spec],
    first: Sample,
    seen: Iterable[Mapping[str, int]],
) -> list[Sample]:
    """A sample, and others that take its steps: at multiples, and at sizes `seen`.

    Each size varies in them. Raises Unsupported where no others are found.
    """
    first_sizes = first.sizes
    with reading():
        samples = _Samples(subject, specs, first)
        for name, n in first_sizes.items():
            samples.try_at({**first_sizes, name: 2 * n})
            if not samples.varies(name):
                samples.try_at({**first_sizes, name: n + PERIOD})
        for sizes in seen:
            samples.try_at(sizes, seen=True)
    if not all(map(samples.varies, first_sizes)):
        raise samples.why()
    return samples.alike


def template_of(samples: Sequence[Sample], symbols: Mapping[str, object]) -> Template:
    """The template of samples: of all, or else without those of other calls.

    These may differ in sizes by a decision that changes no steps. Raises Unsupported
    where there is none.
    """
    first = [sample for sample in samples if not sample.seen]
    try:
        return _template(samples, symbols)
    except Unsupported:
        if len(first) == len(samples) or not all(_varies(k, first) for k in symbols):
            raise
    return _template(first, symbols)


def _template(samples: Sequence[Sample], symbols: Mapping[str, object]) -> Template:
    jaxprs = [sample.trace.jaxpr for sample in samples]
    return template(jaxprs, [sample.sizes for sample in samples], symbols)
