"""What the tests of the importer share."""

import pytest

import graphc


@pytest.fixture
def graph_of():
    """The results of a function of JAX by way of a graph, at sizes of its arrays."""

    def run(function, *arrays):
        graph = graphc.from_jax(function, *arrays)
        inputs, outputs = list(graph.inputs), list(graph.outputs)
        return graphc.function(inputs, outputs, unused="ignore")(*arrays)

    return run
