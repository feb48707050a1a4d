"""Texts of real graphs, changed so that they do harm if any of the change is run."""

import ast
import builtins
import random
import re
import warnings
from functools import cache

import graphc
import graphc.tensor as gt
from graphc.ir.graph.bodies import with_inner_nodes
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.graph.walk import ancestors
from graphc.ir.text.printer import has_text, to_text
from graphc.ir.text.reader import parse_graph
from tests.conformance.cases import CASES
from tests.conformance.programs import PROGRAMS

CALL = "graphc_canary.append(1)"
PIECES = (
    CALL,
    f"{CALL} or 2",
    f'"+{CALL}+"',
    f"'+{CALL}+'",
    f'"""\n{CALL}\n#',
    f"'''\n{CALL}\n#",
    f"\n{CALL}\n#",
    f"\r{CALL}\r#",
    f"\f\n{CALL}",
    f"\\\n{CALL}",
    f'\\"+{CALL}+\\"',
    f"{{{CALL}}}",
    f"{{0.__class__}} {CALL}",
    f"]; {CALL}; [",
    f") or {CALL} or (",
    f"\u2028{CALL}\u2029",
    f"n: {CALL}",
    f"lambda: {CALL}",
    "__import__('os').system('true')",
)
canary: list[int] = []
builtins.graphc_canary = canary  # type: ignore[attr-defined]


@cache
def seeds() -> tuple[str, ...]:
    """The texts of those conformance programs that have a text form."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in PROGRAMS.items():
            inputs = [gt.tensor(*spec) for spec in CASES[name].inputs]
            result = program(*inputs)
            outputs = result if isinstance(result, tuple) else (result,)
            names = tuple(v.name for v in inputs)
            values = tuple(map(gt.asarray, outputs))
            if all(map(has_text, with_inner_nodes(ancestors(values)))):
                graph = Graph(tuple(inputs), values, names, ("",) * len(outputs))
                found.append(to_text(graph))
    return tuple(found)


def quoted(piece: str) -> str:
    """Quote a string as the text of a graph does."""
    escaped = piece.replace("\\", "\\\\").replace('"', '\\"')
    inside = "".join(c if " " <= c <= "~" else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{inside}"'


TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_?]\w*|[0-9.]+|[^\sA-Za-z0-9]')
NUMBERS = ("0", "1", "2", "-1", "3", "64", "2147483648", "9223372036854775808", "1e400")
OTHERS = ("None", "True", "nan", "inf", "()", "(0,)", "((0,), 1)", "float32", "n", "k")


PARAM = re.compile(r"(?<=[;,] )(\w+)=((?:[^(),;\"]|\([^()]*\)|\"[^\"]*\")+)(?=[,)])")
OP = re.compile(r"(?<= = )\w+(?=\()")
NAME = re.compile(r"(?<=[\[( ,])\w+(?=[\]), :])")
INPUT = re.compile(r"(?<=\()\w+(?=:)")
TYPES = re.compile(r"(?<=: ).*?(?= = )")
DIFFERS = re.compile(r"line (\d+): \w+ gives (.*), where the text says (.*)")


def harmful(rng: random.Random) -> str:
    """Draw a replacement for a param."""
    piece = rng.choice(PIECES)
    options = [quoted(piece), f"axis({quoted(piece)})", f"({quoted(piece)},)"]
    options += rng.choices(NUMBERS, k=3) + rng.choices(OTHERS, k=3)
    return rng.choice(options)


def _swapped(text: str, pattern: re.Pattern[str], rng: random.Random) -> str:
    """Replace one match of a pattern by the text of another match."""
    places = list(pattern.finditer(text))
    if not places:
        return text
    place, other = rng.choice(places), rng.choice(places)
    return text[: place.start()] + other.group() + text[place.end() :]


def _param(text: str, rng: random.Random) -> str:
    places = list(PARAM.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start(2)] + harmful(rng) + text[place.end(2) :]


def _called(text: str, rng: random.Random) -> str:
    """Rename an axis, input or output wherever it occurs."""
    piece = quoted(rng.choice(PIECES))
    match rng.randrange(3):
        case 0:
            sizes = re.findall(r"(?<=[\[ ])([a-z]\w*)(?=[\],])", text.split("{")[0])
            name = rng.choice(sizes or ["n"])
            return re.sub(rf"\b{name}\b(?!:)", lambda m: f"axis({piece})", text)
        case 1:
            return INPUT.sub(lambda m: f"{m[0]} {piece}", text, count=1)
        case _:
            return re.sub(r"(?<=return )", lambda m: f"{piece}=", text, count=1)


def _operation(text: str, rng: random.Random) -> str:
    """Replace one op by another, perhaps with params of its own."""
    places = list(OP.finditer(text))
    if not places:
        return text
    place, op = rng.choice(places), PRIMITIVES[rng.choice(list(PRIMITIVES))]
    end = text.index("\n", place.end()) - 1
    inputs = text[place.end() : end].split(";")[0]
    params = ", ".join(f"{name}={harmful(rng)}" for name in op.kinds.names)
    call = f"{op.name}{inputs}; {params})" if params else f"{op.name}{inputs})"
    return text[: place.start()] + call + text[end + 1 :]


def _damaged(text: str, rng: random.Random) -> str:
    token = rng.choice(list(TOKEN.finditer(text)) or [re.match("", text)])
    put = rng.choice(("", harmful(rng), quoted(rng.choice(PIECES))))
    return text[: token.start()] + put + text[token.end() :]


def _lines(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    more = [lines[at]] * rng.choice((0, 2))
    return "".join([*lines[:at], *more, *lines[at + 1 :]]) or "\n"


CHANGES = (_param, _param, _param, _called, _called, _operation, _operation, _damaged)
CHANGES += (_lines, lambda text, rng: _swapped(text, NAME, rng))


def mutated(text: str, rng: random.Random) -> str:
    """Make one to three changes, then correct the types to what the ops give."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(CHANGES)(text, rng)
    for _ in range(8):
        try:
            parse_graph(text)
        except graphc.GraphError as error:
            found = DIFFERS.search(str(error))
            if not found:
                break
            lines, number = text.split("\n"), int(found[1]) - 1
            lines[number] = TYPES.sub(lambda _, f=found: f[2], lines[number], count=1)
            text = "\n".join(lines)
        else:
            break
    return text


def spliced(source: str) -> bool:
    """Whether a program contains, as code, what should only ever be a string."""
    return any(
        isinstance(node, (ast.Name, ast.Attribute))
        and getattr(node, "id", getattr(node, "attr", ""))
        in ("graphc_canary", "__import__", "system")
        for node in ast.walk(ast.parse(source))
    )


def outcome(text: str, backend: str) -> str:
    """Tell whether a text becomes a program, or where and how it is refused.

    Raises if any of the text is run, or if an error other than GraphError occurs.
    """
    canary.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            graph = parse_graph(text)
        except graphc.GraphError as error:
            said = str(error)
            assert said.startswith("parse_graph: line "), said
            assert not canary
            return "refused"
        try:
            made = graphc.function(
                list(graph.inputs), list(graph.outputs), backend=backend
            )
            source = made.source
        except graphc.GraphError:
            assert not canary
            return "no program"
    assert not canary
    assert not spliced(source), source
    return "program"
