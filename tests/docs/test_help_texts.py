"""The `help` of the public functions has every part, is up to date, and is true."""

import doctest
import inspect
import pydoc
import re
import sys

import numpy as np

import graphc.tensor as gt
from graphc.dev import help_texts
from graphc.dev.help_cases import public_names, samples_by_name
from graphc.dev.regenerate import command_for
from graphc.ir.namespace import FUNCTIONS, HELP
from tests.newest_numpy import IS_OLD

NAMES = sorted(public_names())
ADD = f"run: {command_for('help')}"
ANY_ERROR = {"from_dlpack", "select"}  # Python's own, if the object is no array
FLOATS_OF_OLD = set("ceil fix floor trunc".split() if IS_OLD else ())  # from integers
NO_ARRAYS = set(  # functions of dtypes, shapes or functions
    "TensorArray can_cast cond einsum_path finfo fori_loop iinfo isdtype known map "
    "ndim result_type same_size scan scan_taps shape size switch while_loop".split()
)
CUMSUM = """\
cumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, \
*, reverse: bool = False) \
-> graphc.ir.graph.nodes.Value
    Running sums along `axis` (of the flattened array by default).

    >>> import graphc, graphc.tensor as gt
"""


def doctested(function):
    """Whether the doctests of the function's module run its example."""
    if not inspect.isfunction(function):
        return False
    module = vars(sys.modules[function.__module__])
    there = any(value is function for value in module.values())
    return there and function.__globals__ is module


def test_every_public_function_has_a_text():
    assert [names[0] for names in NAMES] == sorted(HELP), ADD


def test_the_texts_are_the_generated_ones():
    """Only every twentieth function, since all of them take half a minute."""
    samples = samples_by_name()
    for names in filter(FLOATS_OF_OLD.isdisjoint, NAMES[3::20]):
        of = [s for name in names for s in samples.get(name, [])]
        assert HELP[names[0]] == help_texts.section(names, of), ADD


def test_functions_that_are_said_to_be_of_numpy_are_those():
    told = re.compile(r"Elementwise (\w+), as `numpy\.(\w+)`")
    found = [m for n in FUNCTIONS if (m := told.match(FUNCTIONS[n].__doc__ or ""))]
    other = [m[0] for m in found if getattr(np, m[1], None) is not getattr(np, m[2])]
    assert len(found) > 50
    assert other == [], "give elementwise() a `doc`"


def test_every_help_has_all_parts():
    """A summary line, the dtypes of arrays, the errors raised, and an example."""
    for names in NAMES:
        function = FUNCTIONS[names[0]]
        first, _, rest = inspect.getdoc(function).partition("\n")
        assert first.endswith((".", ":", ",")) or rest, names
        assert ">>> " in rest, names
        assert "Raises" in rest or names[0] in ANY_ERROR, names
        assert "Dtypes: " in rest or names[0] in NO_ARRAYS, names
        for name in names[1:]:
            assert f"`gt.{name}`" in rest


def test_examples_print_what_they_say():
    """Only functions made in loops; the doctests of graphc run the others."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    for name, text in HELP.items():
        if text and not doctested(FUNCTIONS[name]):
            runner.run(parser.get_doctest(text, {}, name, None, None))
    assert runner.summarize().failed == 0


def test_help_shows_signature_words_and_example():
    text = pydoc.render_doc(gt.cumsum, renderer=pydoc.plaintext)
    start = text.index("cumsum(x")
    shown = "\n".join(map(str.rstrip, text[start:].splitlines()))
    assert shown.startswith(CUMSUM)
    assert shown.endswith(HELP["cumsum"].partition("\n\n>>>")[0].splitlines()[-1])
