"""Saved models with all of graphc, which compiles their graph for other sizes."""

from graphc.errors import graph_error
from graphc.ir.text.reader import parse_graph
from graphc.runtime.cache.whole_files import StrPath
from graphc.runtime.compile import function
from graphc.runtime.function import Function
from graphc.runtime.save.graph_text import restore_constants
from graphc_serving import model
from graphc_serving.manifest import Manifest
from graphc_serving.model import Model
from graphc_serving.programs import array_of
from graphc_serving.reading import Tensors


def load(path: StrPath, *, graph: bool = False) -> Model:
    """Load the model that `Function.export` has written to a file.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> import pathlib, tempfile
    >>> x = gt.vector("x", shape=("n",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "doubled.model")
    ...     graphc.function([x], x * 2).export(path, {"n": [2, 3]})
    ...     print(graphc.load(path)(np.array([1, 2], "float32")))
    [2. 4.]

    The model takes the sizes that it was exported for; where they are padded, all that
    fit into their capacities. With `graph`, it is compiled for other sizes when they
    come, from the graph in the file: it must have been exported with `graph=True`. It
    is compiled for all sizes in this way where JAX no longer reads the programs in the
    file.

    Nothing in the file is run as Python. Raises ModelError for a file that is damaged,
    malformed, larger than 16 GiB or of a newer version, and where JAX has no such
    device here. `graphc_serving.load` does the same where graphc is not installed,
    except for other sizes.
    """
    return model.load(path, reopen=function_of if graph else None)


def function_of(manifest: Manifest, tensors: Tensors, device: object) -> Function:
    """Compile the graph of a model to a function that returns a list of outputs.

    Raises GraphError where its text is no graph, or one of other inputs.
    """
    try:
        text = tensors["graph"].tobytes().decode()
    except UnicodeDecodeError:
        raise graph_error("the graph of the model is not text", op="load") from None
    graph = parse_graph(text, least=manifest.least)
    names = manifest.graph or ()
    count = len(graph.inputs) - len(names)
    types = [(v.dtype.name, v.type.rank) for v in graph.inputs[: max(count, 0)]]
    if types != [(v.dtype, len(v.axes)) for v in manifest.inputs]:
        raise graph_error("the graph of the model has other inputs", op="load")
    graph = restore_constants(graph, [array_of(manifest, n, tensors) for n in names])
    outputs = list(graph.outputs)
    return function(graph.inputs, outputs, device=device, unused="ignore")
