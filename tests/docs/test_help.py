"""`help` of public functions: an example comes first, and the text fits a screen."""

import inspect
import warnings

import pytest

import graphc
import graphc.tensor as gt

SCREEN = 48  # lines of 80 characters, including the signature
OF_GT = ("tensor", "scan", "while_loop", "fori_loop", "map", "cond", "switch")
WITHOUT = {"Dim", "Model", "Rows", "SavedDecisions", "Value"}  # users make none
WITHOUT |= {"stop_gradient"}  # from gt, where help begins with dtypes and shapes


def _is_met(member):
    """Whether users call the member: a function, or a class that is no error."""
    if inspect.isclass(member):
        return not issubclass(member, (Exception, warnings.WarningMessage))
    return inspect.isfunction(member)


NAMED = {name: getattr(graphc, name) for name in set(graphc.__all__) - WITHOUT}
MET = {name: member for name, member in NAMED.items() if _is_met(member)}
MET |= {f"gt.{name}": getattr(gt, name) for name in OF_GT}


@pytest.mark.parametrize("name", sorted(MET))
def test_an_example_follows_the_first_sentence(name):
    first, _, others = inspect.getdoc(MET[name]).partition("\n\n")
    assert others.startswith(">>> "), first


@pytest.mark.parametrize("name", sorted(MET))
def test_it_fits_a_screen(name):
    member = MET[name]
    signature = -(-len(str(inspect.signature(member))) // 80)
    assert signature + len(inspect.getdoc(member).splitlines()) <= SCREEN
