"""Few signatures say `Any`, which tells type checkers and editors nothing."""

import ast
import collections
import pathlib

import graphc
import graphc_serving
from tests import parsed

ROOTS = [pathlib.Path(m.__file__).parent for m in (graphc, graphc_serving)]
MOST = 4.5  # per cent of the functions
SHOWN = 12  # files listed in the message


def signature(function):
    """The annotations of the parameters and of the result."""
    a = function.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
    return [arg.annotation for arg in named if arg is not None] + [function.returns]


def says_any(annotation):
    """Whether an annotation contains the name `Any`, quoted or not."""
    names = {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)}
    texts = [n.value for n in ast.walk(annotation) if isinstance(n, ast.Constant)]
    quoted = " ".join(text for text in texts if isinstance(text, str))
    return "Any" in names or "Any" in quoted.replace("[", " ").replace("]", " ").split()


def functions():
    """Yield all functions of both packages, each with its file."""
    for root in ROOTS:
        for path in sorted(root.rglob("*.py")):
            for node in parsed.nodes(path):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield path.relative_to(root.parent), node


def test_few_signatures_say_any():
    """Use named types of `ir/graph/accepted_types`, `ir/types`, `ir/params/kinds`.

    Annotate with `object` what may be anything and is only looked at or passed on.
    """
    everything = list(functions())
    vague = collections.Counter(
        str(path)
        for path, function in everything
        if any(says_any(a) for a in signature(function) if a is not None)
    )
    share = 100 * vague.total() / len(everything)
    files = "\n".join(f"{count:4d} {path}" for path, count in vague.most_common(SHOWN))
    head = f"{vague.total()} functions of {len(everything)} say Any in their signature"
    assert share <= MOST, f"{head}: {share:.1f} %, at most {MOST} %\n{files}"
