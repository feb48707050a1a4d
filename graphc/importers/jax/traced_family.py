"""The calls of a function of JAX that differ in sizes alone, as JAX traces them."""

from dataclasses import dataclass, replace

from graphc.importers.jax.exact import Exact, exact
from graphc.importers.jax.family import CHECKED, SizeFamily
from graphc.importers.jax.pattern import LEAST, ShapesOfCall, SizePattern
from graphc.importers.jax.program import JaxProgram, program_for, program_of_samples
from graphc.importers.jax.subject import Subject
from graphc.importers.jax.unsupported import Unsupported

SAMPLED = 4  # calls seen whose traces are put together into one for all sizes
MOST_PROGRAMS = 8  # for sizes that turn out to be more general


@dataclass
class JaxFamily(SizeFamily[JaxProgram, Exact]):
    """The calls of one function of JAX that differ in nothing but sizes.

    A program for many sizes may be `withheld` for a reason.
    """

    withheld: str = ""
    otherwise = ", as by jax.jit"

    @property
    def subject(self) -> Subject:
        """The function of the leaves of its arguments."""
        return Subject(self.function, self.call)

    def trace(self, sizes: ShapesOfCall) -> Exact:
        """Compile one call with JAX, whose sizes are numbers."""
        found = exact(self.subject, self.specs_at(sizes), self.names(), self.options)
        self.compiled[sizes] = found
        return found

    def leave(self, reason: str) -> None:
        """A call is left to JAX, for a reason that is told once."""
        if reason not in self.left:
            self.left.append(reason)
            self._warn(f"is called so that each size is compiled by jax.jit: {reason}")

    def _serves(self, program: JaxProgram, sizes: ShapesOfCall) -> bool:
        if program.template is None or len(self.programs) == MOST_PROGRAMS:
            return True
        return program.admits(self.subject, sizes, self.specs_at(sizes))

    def _made(self, pattern: SizePattern, sizes: ShapesOfCall) -> JaxProgram:
        """The program for a pattern, by the first way that there is."""
        if self.withheld:
            raise Unsupported(self.withheld)
        reasons: list[Unsupported] = []
        sampled = self.program is not None and self.program.template is not None
        ways = self._of_symbols, self._of_larger_symbols, self._of_samples
        for way in ways[-1:] if sampled else ways:
            try:
                made = way(pattern, sizes)
                self.checked = set()
                self._check_at_known(made, sizes)
                return made
            except Unsupported as error:
                reasons.append(error)
        found = self._of_fixed_axes(pattern, sizes)
        if found is not None:
            return found
        first, last = str(reasons[0]), reasons[-1].reason
        if last in first:
            raise Unsupported(first)
        raise Unsupported(f"{first}; traces at several sizes: {last}") from None

    def _of_fixed_axes(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> JaxProgram | None:
        """The program where an axis is fixed that was said to vary, or None.

        A module may have weights of one size for it.
        """
        named = pattern.sizes(sizes) or {} if self.shapes is not None else {}
        for name, size in named.items():
            try:
                made = self._of_symbols(pattern.fixed(name, size), sizes)
                self._check(made, sizes)
            except Unsupported:
                continue
            self._warn(
                f"takes {size} only for the axis {name}, which does not vary: say "
                f"{size} or _ in `shapes`"
            )
            return made
        return None

    def _of_symbols(self, pattern: SizePattern, _: ShapesOfCall) -> JaxProgram:
        return program_for(
            self.subject, pattern, self.specs, self.names(), self.options
        )

    def _of_larger_symbols(
        self, pattern: SizePattern, sizes: ShapesOfCall
    ) -> JaxProgram:
        """The program for no smaller sizes.

        Python code can compare sizes with numbers, which JAX decides for large ones.
        """
        least = min((pattern.sizes(sizes) or {}).values(), default=LEAST)
        return self._of_symbols(replace(pattern, least=least), sizes)

    def _of_samples(self, pattern: SizePattern, sizes: ShapesOfCall) -> JaxProgram:
        """The program by traces at single sizes: of this call, of others, and twice."""
        self.subject.read(self.specs_at(sizes))  # an error of its own is the user's
        own = pattern.sizes(sizes) or {}
        samples = [own, *({**own, name: 2 * n} for name, n in own.items())]
        for seen in self.seen[-SAMPLED:]:
            found = pattern.sizes(seen)
            if found and found not in samples and pattern.has(seen):
                samples.append(found)
        subject, names, how = self.subject, self.names(), self.options
        return program_of_samples(subject, pattern, self.specs, names, how, samples)

    def _check_at_known(self, program: JaxProgram, sizes: ShapesOfCall) -> None:
        """Check a program at the sizes of all calls that JAX could trace."""
        for known in dict.fromkeys((*self.seen, sizes)):
            try:
                self._check(program, known)
            except Unsupported:
                raise
            except Exception:  # of the user's function, at these sizes
                if known == sizes:
                    raise
                self.seen.remove(known)

    def _check(self, program: JaxProgram, sizes: ShapesOfCall) -> None:
        """Compare with what JAX traces for these very sizes, where that may differ."""
        named = program.pattern.sizes(sizes) or {}
        if sizes in self.checked or not program.pattern.has(sizes):
            return
        if program.template is not None:
            if not program.admits(self.subject, sizes, self.specs_at(sizes)):
                raise Unsupported("its steps depend on the sizes")
            self.checked.add(sizes)
            return
        if len(self.checked) < CHECKED or program.pattern.coincides(named):
            direct = self.subject.read(self.specs_at(sizes))
            if not program.agrees(direct, named):
                shown = ", ".join(f"{k} = {n}" for k, n in named.items())
                raise Unsupported(f"JAX traces something else for {shown}")
            self.checked.add(sizes)
