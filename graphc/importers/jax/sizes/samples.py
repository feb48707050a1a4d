"""Traces of a function at several sizes, insofar as they take the same steps.

A function may take different steps at some sizes. A call's trace is combined with
traces at other sizes that take the same steps; sizes that take different ones get
another program.

Multiples of the call's sizes are tried first. Some numbers follow no formula there,
such as a size rounded up to the next power of two, or a number of steps that depends on
a logarithm. But such a number is the same for all sizes nearby, so those are tried
next.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from graphc.importers.jax.read.unsupported import Unsupported, reading, text_of_error
from graphc.importers.jax.sizes.template import Template, steps_of, template
from graphc.importers.jax.trace.subject import Subject
from graphc.importers.jax.trace.tracing import Spec, TracedFunction

UNLIKE = "its steps depend on the sizes"
MOST_UNLIKE = 3  # sizes after which the search for others traced alike is given up
PERIOD = 24  # sizes this far apart have equal remainders by its divisors
NEAR = 3  # neighbours of a size that show what it is rounded to
ENOUGH = 2  # neighbours, if the next one takes other steps


class Unlike(Unsupported):
    """Raised for a function whose steps at some sizes were found at no other size.

    `everywhere` is set if no two of the other sizes tried take the same steps either.
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


def sample_at(subject: Subject, specs: Sequence[Spec]) -> TracedFunction:
    """Trace the function at these sizes. Raises Unsupported if that fails."""
    try:
        return subject.comparable(subject.read(specs))
    except Exception as error:  # whatever Python code raises for a size
        shown = ", ".join(str(s.shape) for s in specs)
        reason = f"it cannot be traced for {shown}: {text_of_error(error)}"
        raise Unsupported(reason) from error


class SampledTraces:
    """The traces of a function at several sizes, each of which is made once."""

    def __init__(self, subject: Subject, specs: Sequence[Spec], first: Sample) -> None:
        self.first = first
        self._subject, self._specs = subject, specs
        self._known: dict[frozenset[tuple[str, int]], TracedFunction | Unsupported]
        self._known = {_key(first.sizes): first.trace}

    def at(self, sizes: Mapping[str, int]) -> TracedFunction:
        """The trace at these sizes. Raises Unsupported if there is none."""
        key = _key(sizes)
        if key not in self._known:
            specs = [spec.at(sizes) for spec in self._specs]
            try:
                self._known[key] = sample_at(self._subject, specs)
            except Unsupported as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, Unsupported):
            raise known
        return known


def _key(sizes: Mapping[str, int]) -> frozenset[tuple[str, int]]:
    return frozenset(sizes.items())


class _Samples:
    """The first sample, and samples at other sizes that take the same steps."""

    def __init__(self, traces: SampledTraces) -> None:
        first = traces.first
        self.alike = [first]
        self._failed: Unsupported | None = None
        self._others: list[list[Hashable]] = []  # the steps of traces that differ
        self._traces = traces
        self._steps = steps_of(first.trace.jaxpr)

    def try_at(self, sizes: Mapping[str, int], seen: bool = False) -> bool:
        """Trace the function at these sizes; keep the trace if its steps agree."""
        if any(sizes == sample.sizes for sample in self.alike):
            return True
        try:
            trace = self._traces.at(sizes)
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
        """The reason why there are too few samples, as an error."""
        if self._failed is not None:
            return self._failed
        pairs = combinations(self._others, 2)
        return Unlike(len(self.alike) == 1 and all(a != b for a, b in pairs))

    def varies(self, name: str) -> bool:
        """Whether a size has more than one value in the samples."""
        return _varies(name, self.alike)


def _varies(name: str, samples: Iterable[Sample]) -> bool:
    return len({sample.sizes[name] for sample in samples}) > 1


@dataclass(frozen=True)
class Sampling:
    """How a function is traced at sizes other than those of a call.

    No size is below `least`. `symbols` maps names to JAX's symbols. Sizes next to those
    of the call are tried first if `near_first` is set, else last.
    """

    traces: SampledTraces
    symbols: Mapping[str, object]
    least: int
    near_first: bool = False

    def template(self, seen: Iterable[Mapping[str, int]]) -> Template:
        """Make a template of the first trace and of others, some at `seen` sizes.

        Raises Unsupported if the traces do not fit together.
        """
        with reading():
            if self.near_first:
                return self._near_template() or self._far_template(seen)
            try:
                far = self._far_template(seen)
            except Unsupported:
                near = self._near_template()
                if near is None:
                    raise
                return near
            if self._is_confirmed(far):
                return far
            return self._near_template() or far

    def _far_template(self, seen: Iterable[Mapping[str, int]]) -> Template:
        """Make a template of samples at multiples and at `seen`; each size varies.

        Raises Unsupported if no other samples are found, or if sizes follow no formula.
        """
        first, samples = self.traces.first.sizes, _Samples(self.traces)
        for name, n in first.items():
            samples.try_at({**first, name: 2 * n})
            if not samples.varies(name):
                samples.try_at({**first, name: n + PERIOD})
        for sizes in seen:
            samples.try_at(sizes, seen=True)
        if not all(map(samples.varies, first)):
            raise samples.why()
        return _template_of_most(samples.alike, self.symbols)

    def _is_confirmed(self, template: Template) -> bool:
        """Whether a template predicts a trace at other sizes, or that trace fails.

        This matters for formulas that divide: they fit two sizes in many ways.
        """
        if not template.divides:
            return True
        sizes = {name: 3 * n for name, n in self.traces.first.sizes.items()}
        try:
            trace = self.traces.at(sizes)
        except Unsupported:
            return True
        return template.describes(trace.jaxpr, sizes)

    def _near_template(self) -> Template | None:
        """Make a template of samples just above or below, preferring fewer divisions.

        Returns None if there are too few samples, or if sizes follow no formula.
        """
        templates, names = [], self.traces.first.sizes
        for direction in (1, -1):
            samples = _Samples(self.traces)
            if not all(self._try_near(samples, name, direction) for name in names):
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
        """Whether enough sizes of this name next to the first take the same steps."""
        sizes = samples.alike[0].sizes
        for distance in range(1, NEAR + 1):
            n = sizes[name] + direction * distance
            if n < self.least or not samples.try_at({**sizes, name: n}):
                return distance > ENOUGH
        return True


def _template_of_most(
    samples: Sequence[Sample], symbols: Mapping[str, object]
) -> Template:
    """Make a template of all samples, or else of those not from other calls.

    Samples of other calls may have different sizes, due to a decision that changes no
    steps. Raises Unsupported if neither works.
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
