"""Saved models of graphc, read and run without graphc's compiler.

Reading a file runs nothing of it, and imports nothing of graphc: a server needs this
package, JAX, safetensors and flatbuffers.

In: the file of a model, and arguments of its calls.
Out: results, or an error that names the part of the file that is wrong.
Begin at `model`, then `manifest` and `steps`.
"""

from graphc_serving.manifest import ModelError
from graphc_serving.model import Model, load

__all__ = ["Model", "ModelError", "load"]
