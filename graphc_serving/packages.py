"""The packages that files of models need, besides NumPy and JAX."""

import importlib
from types import ModuleType

OF_FILES = ("safetensors.numpy", "flatbuffers")


def needed(doing: str) -> tuple[ModuleType, ...]:
    """Import the packages in `OF_FILES`.

    Raises ModuleNotFoundError that tells how to install them where one is missing.
    `doing` says in its message what needs the package, for example "graphc.load".
    """
    try:
        return tuple(map(importlib.import_module, OF_FILES))
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        problem = f"{doing} needs {package}: pip install 'graphc[export]'"
        raise ModuleNotFoundError(problem, name=error.name) from None
