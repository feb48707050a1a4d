"""The differences of two plans, in a few lines."""

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from graphc.errors import graph_error, in_number, shortened
from graphc.show.picture import Picture
from graphc.show.records import PictureRecord, ProgramRecord, StepRecord
from graphc.show.showing import Showing
from graphc.transform.planning.plan import Plan

MOST_LISTED = 12  # ops, or rules, of one line


def diff(first: Showing | Plan, second: Showing | Plan) -> str:
    """The differences of two plans, or of the plans of two functions, line by line.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n",))
    >>> f = graphc.function([x], gt.mean(x))
    >>> g = graphc.function([x], gt.mean(x), backend="numpy")
    >>> print(graphc.diff(f, g).splitlines()[0])
    backend: jax -> numpy

    Steps are listed as by `difflib`: "-" marks steps of the first plan that the second
    does not have.
    """
    return difference(_record(first), _record(second))


def _record(shown: Showing | Plan) -> PictureRecord:
    draw = shown.picture if isinstance(shown, Plan) else None
    if isinstance(shown, Showing):
        draw = shown._picture
    picture = None if draw is None else draw()
    if not isinstance(picture, Picture):
        raise graph_error(
            "it has no plan to compare",
            op="diff",
            got=shortened(repr(shown)),
            expected="a compiled function, or its plan: f.plan",
        )
    return picture.record


def difference(first: PictureRecord, second: PictureRecord) -> str:
    """Describe, in lines, how the second picture differs from the first."""
    lines = list(_lines(first, second))
    return "\n".join(lines) if lines else "the plans are alike"


def _lines(first: PictureRecord, second: PictureRecord) -> Iterator[str]:
    if len(first.programs) != len(second.programs):
        counts = len(first.programs), len(second.programs)
        yield f"programs: {counts[0]} -> {counts[1]}"
    for i, (a, b) in enumerate(zip(first.programs, second.programs, strict=False)):
        lines = list(_program_changes(a, b))
        if lines and len(first.programs) > 1:
            yield f"program {i}:"
            lines = [f"  {line}" for line in lines]
        yield from lines


def _program_changes(a: ProgramRecord, b: ProgramRecord) -> Iterator[str]:
    for what, old, new in (
        ("backend", a.backend, b.backend),
        ("compiled", _yes_or_no(a.compiled), _yes_or_no(b.compiled)),
        ("arguments", _arguments(a), _arguments(b)),
        ("results", _results(a), _results(b)),
        ("sizes", _policies(a), _policies(b)),
        ("size checks", _checks(a), _checks(b)),
        ("nodes", str(len(a.nodes)), str(len(b.nodes))),
    ):
        if old != new:
            yield f"{what}: {old or 'none'} -> {new or 'none'}"
    yield from _counts("ops", _ops(a), _ops(b))
    yield from _counts("rules", _rules(a), _rules(b))
    yield from _steps(a, b)


def _yes_or_no(answer: bool) -> str:
    return "yes" if answer else "no"


def _arguments(program: ProgramRecord) -> str:
    return ", ".join(map(program.typed_name, program.inputs))


def _results(program: ProgramRecord) -> str:
    types = (program.values[v].type for v in program.outputs)
    return ", ".join(program.types[t].text for t in types)


def _policies(program: ProgramRecord) -> str:
    policies = [f"{s.name} {s.policy}" for s in program.symbols if s.policy]
    return ", ".join(dict.fromkeys(policies))


def _checks(program: ProgramRecord) -> str:
    return ", ".join(dict.fromkeys(check.text for check in program.size_checks))


def _ops(program: ProgramRecord) -> Counter[str]:
    return Counter(node.op for node in program.nodes)


def _rules(program: ProgramRecord) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in program.rewrites:
        counts[one.rule] += one.count
    return counts


def _counts(what: str, a: Counter[str], b: Counter[str]) -> Iterator[str]:
    changes = [f"{n} {a[n]} -> {b[n]}" for n in sorted({*a, *b}) if a[n] != b[n]]
    if changes:
        more = f", and {len(changes) - MOST_LISTED} more" * (len(changes) > MOST_LISTED)
        yield f"{what}: {', '.join(changes[:MOST_LISTED])}{more}"


def _steps(a: ProgramRecord, b: ProgramRecord) -> Iterator[str]:
    old, new = [_step(a, s) for s in a.steps], [_step(b, s) for s in b.steps]
    for tag, i, j, k, m in SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            yield from (f"- {line}" for line in old[i:j])
            yield from (f"+ {line}" for line in new[k:m])


def _step(program: ProgramRecord, step: StepRecord) -> str:
    line = None if step.line is None else program.lines[step.line]
    keys = program.names_of(step.keys)
    if step.segment is None:
        where = "" if line is None else f" at {line.file}:{line.line}"
        return f"{step.kind}{where}: {step.text or step.reason}"
    text = f"{step.title}: {in_number(len(step.nodes), 'node')}"
    if line is not None:
        text += f" from {line.file}:{line.line}"
    return text + (f", compiled per {keys}" if keys else ", compiled once")
