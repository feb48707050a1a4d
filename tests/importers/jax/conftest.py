"""What the tests of the importer share."""

import pytest

import graphc
from graphc.importers.jax.call import traced_family


@pytest.fixture
def graph_of():
    """The results of a function of JAX by way of a graph, at sizes of its arrays."""

    def run(function, *arrays):
        graph = graphc.from_jax(function, *arrays)
        inputs, outputs = list(graph.inputs), list(graph.outputs)
        return graphc.function(inputs, outputs, unused="ignore")(*arrays)

    return run


@pytest.fixture
def without_audit(monkeypatch):
    """Traces are as many as without `GRAPHC_AUDIT`, which adds one for each size."""
    monkeypatch.setattr(traced_family, "AUDITS", False)
