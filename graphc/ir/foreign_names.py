"""Names from other libraries, and the code that does the same in graphc."""

import re

_KINDS = ("scalar", "vector", "matrix", "tensor3")
_LETTERS = {
    "b": "int8",
    "w": "int16",
    "i": "int32",
    "l": "int64",
    "f": "float32",
    "d": "float64",
    "c": "complex64",
    "z": "complex128",
}
_DECLARED = re.compile(rf"([{''.join(_LETTERS)}])({'|'.join(_KINDS)})")
_CALLED = "compile and call: graphc.function([x], y)(array)"
_ITSELF = "leave it out: a value has no gradient or memory of its own"
_SHOWN = "write f.show(), which opens the plan as a picture"
_DEVICE = 'say where it runs: graphc.function(inputs, outputs, device="cpu")'

OF_VALUES = {
    "backward": "write graphc.grad(cost, x)",
    "cpu": _DEVICE,
    "cuda": _DEVICE,
    "clone": _ITSELF,
    "contiguous": _ITSELF,
    "detach": "write graphc.stop_gradient(x)",
    "dim": "write x.ndim",
    "eval": _CALLED,
    "item": _CALLED,
    "numpy": _CALLED,
    "requires_grad": "write graphc.grad(cost, x)",
    "permute": "write x.transpose(axes)",
    "to": 'write x.astype("float32"), or graphc.function(..., device="cpu")',
    "tolist": _CALLED,
    "unsqueeze": "write gt.expand_dims(x, axis)",
    "view": "write x.reshape(shape)",
}
OF_TENSOR = {
    "cat": "write gt.concatenate([x, y])",
    "function": "write graphc.function([x], y)",
    "grad": "write graphc.grad(cost, x)",
    "input": 'write gt.tensor(name, "float32", shape)',
    "jit": "write graphc.jit(function), or graphc.function([x], y) for values",
    "placeholder": 'write gt.tensor(name, "float32", shape)',
    "shared": "make it an input, with graphc.Input(x, default=array)",
    "unsqueeze": "write gt.expand_dims(x, axis)",
}
OF_GRAPHC = {
    "Tensor": "graphc.Value is the class of what gt.tensor(name, dtype, shape) makes",
    "compile": "write graphc.function([x], y) for values, or graphc.jit(function)",
    "trace": "write graphc.jit(function)",
}
OF_FUNCTION = {
    "compilations": "write f.stats().compilations",
    "draw": _SHOWN,
    "eval": "call it: f(array)",
    "forecast": "write f.plan.forecast(sizes)",
    "grad": "write graphc.function([x], graphc.grad(y, x))",
    "plot": _SHOWN,
    "run": "call it: f(array)",
    "segments": "write f.plan.segments",
    "to_json": "write f.plan.to_json()",
    "to_svg": "write f.plan.to_svg()",
    "visualize": _SHOWN,
}


def code_instead(name: str) -> str:
    """The code to write for a name that `graphc.tensor` lacks, or ""."""
    declared = _DECLARED.fullmatch(name)
    if declared is None:
        return OF_TENSOR.get(name, "")
    letter, kind = declared.groups()
    return f'write gt.{kind}(name, "{_LETTERS[letter]}")'
