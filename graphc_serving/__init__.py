"""Saved models of graphc, read and run without graphc's compiler.

Reading a file runs nothing of it, and imports nothing of graphc: a server needs this
package, JAX, safetensors and flatbuffers.
"""

from graphc_serving.manifest import ModelError
from graphc_serving.model import Model, load

__all__ = ["Model", "ModelError", "load"]
