"""`help` of all public objects: a signature, a line, an example that runs."""

import doctest
import inspect

import pytest

import graphc
import graphc.tensor as gt
import graphc_serving

ROOMS = [graphc, gt, gt.fft, gt.linalg, gt.nn, gt.random, gt.special, graphc_serving]
SCREEN = 45  # lines


def ours():
    """The public functions, classes and objects of graphc, each once."""
    objects = {}
    for room in ROOMS:
        for name in dir(room):
            subject = getattr(room, name)
            module = getattr(subject, "__module__", "")
            if name.startswith("_") or inspect.ismodule(subject):
                continue
            if str(module).startswith("graphc"):
                objects.setdefault(id(subject), (f"{room.__name__}.{name}", subject))
    return [*objects.values()]


def test_help_begins_with_an_example_and_fits_a_screen():
    wrong = []
    for name, subject in ours():
        doc = inspect.getdoc(subject) or ""
        if ">>>" not in "".join(doc.split("\n\n")[:2]):
            wrong.append(f"{name} does not begin with an example")
        lines = len(doc.splitlines())
        if not inspect.isclass(subject) and callable(subject):
            lines += len(str(inspect.signature(subject))) // 88
        if lines > SCREEN:
            wrong.append(f"{name} has {lines} lines")
    assert not wrong, "\n".join(wrong)


OF_SERVING = [graphc_serving.Model, graphc_serving.ModelError, graphc_serving.load]


@pytest.mark.parametrize("subject", OF_SERVING)
def test_examples_of_serving_run(subject):
    """Only those of graphc_serving: pytest itself runs those of graphc."""
    for test in doctest.DocTestFinder(recurse=False).find(subject, globs={}):
        assert not doctest.DocTestRunner().run(test).failed


def test_functions_list_what_users_call():
    """Tab completion offers no attribute that only graphc itself uses."""
    x = gt.tensor("x", "float32", ("n", 3))
    f = graphc.function([x], gt.sum(x[x > 0]))
    listed = {*dir(f)}
    assert {"explain", "plan", "show", "source", "stats"} <= listed
    assert listed.isdisjoint({"contents", "making", "planned_run", "shown_programs"})
    assert len(repr(f.plan.segments[0])) < 80
    assert dir(graphc.pytensor) == sorted(graphc.pytensor.__all__)
