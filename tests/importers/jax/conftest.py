"""Fixtures that the tests of the JAX importer share."""

import contextlib

import jax
import pytest

import graphc
from graphc.importers.jax.call import traced_family
from graphc.importers.jax.read.reader import Reader
from graphc.importers.jax.read.unsupported import Unsupported

EVENT = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def events():
    """The names of XLA's compilations, as JAX itself reports them."""
    names = []

    def listen(event, seconds, fun_name="", **_):
        if event == EVENT:
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    with contextlib.suppress(AttributeError, ValueError):
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def graph_of():
    """Return a function that runs a JAX function by way of a graph on given arrays."""

    def run(function, *arrays):
        graph = graphc.from_jax(function, *arrays)
        inputs, outputs = list(graph.inputs), list(graph.outputs)
        return graphc.function(inputs, outputs, unused="ignore")(*arrays)

    return run


@pytest.fixture
def without_audit(monkeypatch):
    """Turn off `GRAPHC_AUDIT`, which adds a trace for each size."""
    monkeypatch.setattr(traced_family, "AUDITS", False)


@pytest.fixture(autouse=True)
def rules_foresee_all(monkeypatch, request):
    """Fail a test in which a rule raises anything but Unsupported.

    JAX would run that part instead and be right, so nothing else would show the
    failure.
    """
    by_rule, unforeseen = Reader._by_rule, []

    def recording(self, eqn, *others):
        try:
            return by_rule(self, eqn, *others)
        except Unsupported:
            raise
        except Exception as error:
            unforeseen.append((eqn.primitive.name, error))
            raise

    monkeypatch.setattr(Reader, "_by_rule", recording)
    yield
    if request.node.get_closest_marker("misfit") is None:
        assert unforeseen == []
