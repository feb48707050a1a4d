"""Comparisons of sizes that JAX itself makes: of keys of caches, and in its code."""

import jax.export
import pytest

from graphc.importers.jax.trace.dimensions import recording
from graphc.importers.jax.trace.recorder import Recorder

OF_JAX = {"__name__": "jax.keys"}
exec(
    """
class Key:
    def __init__(self, size):
        self.size = size

    def __hash__(self):
        return 1  # all collide

    def __eq__(self, other):
        return self.size == other.size

    def __ne__(self, other):
        return self.size != other.size

def cached(a, b):
    return {Key(a): True}.get(Key(b), False)

def nested(a, b):
    return {(Key(a), 0): True}.get((Key(b), 0), False)

def equal(a, b):
    return Key(a) == Key(b)

def different(a, b):
    return not (Key(a) != Key(b))

def within(a, b):
    return Key(a) in [Key(b)]
""",
    OF_JAX,
)


@pytest.mark.parametrize("other", [3, 4])
@pytest.mark.parametrize("name", ["cached", "nested", "equal", "different", "within"])
def test_keys_of_caches_decide_nothing(name, other):
    """A cache compares keys only if their hashes collide, which is up to chance."""
    recorder, (n,) = Recorder({"n": 3}), jax.export.symbolic_shape("n")
    with recording(recorder, [n]):
        assert not OF_JAX[name](n, other)
        assert OF_JAX[name](n, n)
    is_written = name not in ("cached", "nested")
    assert recorder.is_opaque == (is_written and other == 3)
