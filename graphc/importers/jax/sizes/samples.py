"""Traces of a function at several sizes, as far as they take the same steps.

A function may do something else at some sizes. The sizes of a call are put together
with others that are done alike; for those that are not, there is another program.

Others are sought at multiples of the sizes first. A number that a size is rounded up
to, as to the next power of two, follows no formula there, but is one number for the
sizes around; so is the number of steps that a logarithm tells. So others are sought
near the sizes then.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from graphc.importers.jax.read.unsupported import Unsupported, raised, reading
from graphc.importers.jax.sizes.template import Template, steps_of, template
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import Spec, TracedFunction

UNLIKE = "its steps depend on the sizes"
PERIOD = 24  # two sizes this far apart are alike in the rests by its divisors
NEAR = 3  # so many sizes next to one tell a number that a size is rounded to
ENOUGH = 2  # of them, where another takes other steps


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

    def try_at(self, sizes: Mapping[str, int], seen: bool = False) -> bool:
        """Trace the function at these sizes, and keep it where it takes the steps."""
        if any(sizes == sample.sizes for sample in self.alike):
            return True
        try:
            trace = sampled(self._subject, [s.at(sizes) for s in self._specs])
        except Unsupported as error:
            self._failed = error
            return False
        steps = steps_of(trace.jaxpr)
        if steps == self._steps:
            self.alike.append(Sample(sizes, trace, seen))
        else:
            self._others.append(steps)
        return steps == self._steps

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


@dataclass(frozen=True)
class Sampling:
    """How a function is traced at other sizes than those of a call.

    None is below the `least`; `symbols` are those of JAX, by name. Sizes next to those
    of the call are tried first where they are `near_first`, and last elsewhere.
    """

    subject: Subject
    specs: Sequence[Spec]
    symbols: Mapping[str, object]
    least: int
    near_first: bool = False

    def template(self, first: Sample, seen: Iterable[Mapping[str, int]]) -> Template:
        """The template of a sample and of others, some perhaps at sizes `seen`.

        Raises Unsupported where there is none.
        """
        with reading():
            if self.near_first:
                return self._near(first) or self._far(first, seen)
            try:
                far = self._far(first, seen)
            except Unsupported:
                near = self._near(first)
                if near is None:
                    raise
                return near
            return far if self._is_confirmed(far, first) else self._near(first) or far

    def _far(self, first: Sample, seen: Iterable[Mapping[str, int]]) -> Template:
        """The template of samples at multiples, and at sizes `seen`; each size varies.

        Raises Unsupported where none others are found, or sizes follow no formula.
        """
        samples = _Samples(self.subject, self.specs, first)
        for name, n in first.sizes.items():
            samples.try_at({**first.sizes, name: 2 * n})
            if not samples.varies(name):
                samples.try_at({**first.sizes, name: n + PERIOD})
        for sizes in seen:
            samples.try_at(sizes, seen=True)
        if not all(map(samples.varies, first.sizes)):
            raise samples.why()
        return _of_most(samples.alike, self.symbols)

    def _is_confirmed(self, template: Template, first: Sample) -> bool:
        """Whether a template foretells a trace at other sizes, unless that fails.

        Formulas that divide fit two sizes in many ways.
        """
        if not template.divides:
            return True
        sizes = {name: 3 * n for name, n in first.sizes.items()}
        try:
            trace = sampled(self.subject, [s.at(sizes) for s in self.specs])
        except Unsupported:
            return True
        return template.describes(trace.jaxpr, sizes)

    def _near(self, first: Sample) -> Template | None:
        """The template of samples just above, or below: where fewer sizes divide."""
        templates = []
        for direction in (1, -1):
            samples = _Samples(self.subject, self.specs, first)
            if not all(
                self._try_near(samples, name, direction) for name in first.sizes
            ):
                continue
            try:
                template = _template(samples.alike, self.symbols)
            except Unsupported:
                continue
            templates.append(replace(template, near=True))
            if not template.divides:
                break
        return min(templates, key=lambda template: template.divides, default=None)

    def _try_near(self, samples: _Samples, name: str, direction: int) -> bool:
        """Whether enough sizes next to the first, of this name, take its steps."""
        sizes = samples.alike[0].sizes
        for distance in range(1, NEAR + 1):
            n = sizes[name] + direction * distance
            if n < self.least or not samples.try_at({**sizes, name: n}):
                return distance > ENOUGH
        return True


def _of_most(samples: Sequence[Sample], symbols: Mapping[str, object]) -> Template:
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
