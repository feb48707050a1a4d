"""PyTensor's side, if it is installed: `pip install pytensor==3.0.7`."""

from typing import Any

from benchmarks.harness import setting

try:
    import pytensor
    import pytensor.tensor as pt
except ImportError:  # an optional rival, whose rows are left out
    pytensor = pt = None

# Its C compiler takes minutes, so with `--smallest` its rows are left out too.
available = setting(pytensor is not None, False)


class Space:
    """`pytensor.tensor` with the names that `programs` uses."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pt, name)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return pt.switch(condition, a, b)


def compiled(inputs: list[Any], output: Any, mode: str) -> Any:
    """Call `pytensor.function` in one of its modes: "JAX" or "CVM"."""
    return pytensor.function(inputs, output, mode=mode, on_unused_input="ignore")


def rewriting(inputs: list[Any], output: Any) -> None:
    """Run only the rewrites of the mode "JAX", on a copy of a graph."""
    graph = pytensor.graph.fg.FunctionGraph(inputs, [output], clone=True)
    pytensor.compile.mode.get_mode("JAX").optimizer.rewrite(graph)


def tensor(name: str, shape: tuple[int | None, ...]) -> Any:
    """Make a float32 variable."""
    return pt.tensor(name, dtype="float32", shape=shape)
