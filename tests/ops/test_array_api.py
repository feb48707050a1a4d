"""Functions take the arguments of the Array API standard, and say where arrays are."""

import inspect

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.namespace import FUNCTIONS

# The signatures of version 2024.12, without elementwise functions.
CREATION = """
    arange(start, /, stop=None, step=1, *, dtype=None, device=None)
    asarray(obj, /, *, dtype=None, device=None, copy=None)
    empty(shape, *, dtype=None, device=None)
    empty_like(x, /, *, dtype=None, device=None)
    eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
    from_dlpack(x, /, *, device=None, copy=None)
    full(shape, fill_value, *, dtype=None, device=None)
    full_like(x, /, fill_value, *, dtype=None, device=None)
    linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
    meshgrid(*arrays, indexing="xy")
    ones(shape, *, dtype=None, device=None)
    ones_like(x, /, *, dtype=None, device=None)
    tril(x, /, *, k=0)
    triu(x, /, *, k=0)
    zeros(shape, *, dtype=None, device=None)
    zeros_like(x, /, *, dtype=None, device=None)
    astype(x, dtype, /, *, copy=True, device=None)
    can_cast(from_, to, /)
    finfo(type, /)
    iinfo(type, /)
    isdtype(dtype, kind)
    result_type(*arrays_and_dtypes)
    fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
    fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
"""
LINALG = """
    matmul(x1, x2, /)
    matrix_transpose(x, /)
    tensordot(x1, x2, /, *, axes=2)
    vecdot(x1, x2, /, *, axis=-1)
    linalg.cholesky(x, /, *, upper=False)
    linalg.cross(x1, x2, /, *, axis=-1)
    linalg.det(x, /)
    linalg.diagonal(x, /, *, offset=0)
    linalg.eigh(x, /)
    linalg.eigvalsh(x, /)
    linalg.inv(x, /)
    linalg.matmul(x1, x2, /)
    linalg.matrix_norm(x, /, *, keepdims=False, ord="fro")
    linalg.matrix_power(x, n, /)
    linalg.matrix_rank(x, /, *, rtol=None)
    linalg.matrix_transpose(x, /)
    linalg.outer(x1, x2, /)
    linalg.pinv(x, /, *, rtol=None)
    linalg.qr(x, /, *, mode="reduced")
    linalg.slogdet(x, /)
    linalg.solve(x1, x2, /)
    linalg.svd(x, /, *, full_matrices=True)
    linalg.svdvals(x, /)
    linalg.tensordot(x1, x2, /, *, axes=2)
    linalg.trace(x, /, *, offset=0, dtype=None)
    linalg.vecdot(x1, x2, /, *, axis=-1)
    linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
    fft.fft(x, /, *, n=None, axis=-1, norm="backward")
    fft.ifft(x, /, *, n=None, axis=-1, norm="backward")
    fft.fftn(x, /, *, s=None, axes=None, norm="backward")
    fft.ifftn(x, /, *, s=None, axes=None, norm="backward")
    fft.rfft(x, /, *, n=None, axis=-1, norm="backward")
    fft.irfft(x, /, *, n=None, axis=-1, norm="backward")
    fft.rfftn(x, /, *, s=None, axes=None, norm="backward")
    fft.irfftn(x, /, *, s=None, axes=None, norm="backward")
    fft.hfft(x, /, *, n=None, axis=-1, norm="backward")
    fft.ihfft(x, /, *, n=None, axis=-1, norm="backward")
    fft.fftshift(x, /, *, axes=None)
    fft.ifftshift(x, /, *, axes=None)
"""
REST = """
    broadcast_arrays(*arrays)
    broadcast_to(x, /, shape)
    clip(x, /, min=None, max=None)
    concat(arrays, /, *, axis=0)
    expand_dims(x, /, *, axis=0)
    flip(x, /, *, axis=None)
    moveaxis(x, source, destination, /)
    permute_dims(x, /, axes)
    repeat(x, repeats, /, *, axis=None)
    reshape(x, /, shape, *, copy=None)
    roll(x, /, shift, *, axis=None)
    squeeze(x, /, axis)
    stack(arrays, /, *, axis=0)
    tile(x, repetitions, /)
    unstack(x, /, *, axis=0)
    argmax(x, /, *, axis=None, keepdims=False)
    argmin(x, /, *, axis=None, keepdims=False)
    count_nonzero(x, /, *, axis=None, keepdims=False)
    nonzero(x, /)
    searchsorted(x1, x2, /, *, side="left", sorter=None)
    where(condition, x1, x2, /)
    unique_all(x, /)
    unique_counts(x, /)
    unique_inverse(x, /)
    unique_values(x, /)
    argsort(x, /, *, axis=-1, descending=False, stable=True)
    sort(x, /, *, axis=-1, descending=False, stable=True)
    cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
    cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
    max(x, /, *, axis=None, keepdims=False)
    mean(x, /, *, axis=None, keepdims=False)
    min(x, /, *, axis=None, keepdims=False)
    prod(x, /, *, axis=None, dtype=None, keepdims=False)
    std(x, /, *, axis=None, correction=0.0, keepdims=False)
    sum(x, /, *, axis=None, dtype=None, keepdims=False)
    var(x, /, *, axis=None, correction=0.0, keepdims=False)
    all(x, /, *, axis=None, keepdims=False)
    any(x, /, *, axis=None, keepdims=False)
    diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    take(x, indices, /, *, axis=None)
    take_along_axis(x, indices, /, *, axis=-1)
"""
GIVEN = (CREATION + LINALG + REST).splitlines()
LINES = [line.strip() for line in GIVEN if line.strip()]
OTHER_WORDS = {  # another default that means the same
    *(("fft", "norm"), ("std", "correction"), ("var", "correction")),
    *(("linspace", "num"), ("pinv", "rtol"), ("expand_dims", "axis")),
    ("squeeze", "axis"),
}
BY_NAME_TOO = {("where", 1), ("where", 2)}  # optional, and np.where names them


def parsed(line):
    """The name and the parameters in a line of the standard."""
    name, _, rest = line.partition("(")
    made = {}
    exec(f"def function({rest}: ...", made)
    return name, inspect.signature(made["function"]).parameters.values()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("(")[0])
def test_arguments_and_defaults_are_those_of_the_standard(line):
    name, theirs = parsed(line)
    ours = list(inspect.signature(FUNCTIONS[name]).parameters.values())
    for i, p in enumerate(theirs):
        if p.kind is p.VAR_POSITIONAL:
            assert ours[i].kind is p.VAR_POSITIONAL
            continue
        found = next((o for o in ours if o.name == p.name), None)
        if p.kind is p.POSITIONAL_ONLY and (name, i) not in BY_NAME_TOO:
            assert ours[i].kind is p.POSITIONAL_ONLY
            continue
        if p.kind is not p.KEYWORD_ONLY:
            assert ours[i] is found or (name, i) in BY_NAME_TOO
            found = ours[i]
        assert found is not None and found.kind is not p.POSITIONAL_ONLY
        word = ("fft" if name.startswith("fft") else name.split(".")[-1], p.name)
        same = found.default == p.default or word in OTHER_WORDS
        assert same or (name, i) in BY_NAME_TOO


def test_every_signature_of_one_array_is_compared():
    assert len(LINES) == len(set(LINES)) > 90


x = gt.tensor("x", "float32", ("n", 3))


def test_a_value_tells_its_namespace():
    assert x.__array_namespace__() is gt
    assert x.__array_namespace__(api_version="2024.12") is gt
    assert hasattr(gt.zeros(2), "__array_namespace__")
    with pytest.raises(graphc.GraphError, match="there is no version '2099.01'"):
        x.__array_namespace__(api_version="2099.01")


def test_a_value_is_where_the_program_puts_it():
    assert x.device is None
    assert x.to_device(x.device) is x
    with pytest.raises(graphc.GraphError, match="to_device: a graph names no device"):
        x.to_device("cpu")


CREATED = [
    gt.zeros(2, device=None),
    gt.ones_like(x, device=x.device),
    gt.arange(3, device=None),
    gt.eye(2, device=None),
    gt.linspace(0, 1, 3, device=None),
    gt.asarray([1, 2], device=None, copy=True),
    gt.astype(x, "int32", copy=False, device=None),
    gt.from_dlpack(np.ones(2), device=None, copy=None),
    gt.reshape(x, (3, -1), copy=True),
]


def test_devices_and_copies_may_be_asked_for():
    found = graphc.function([x], CREATED, backend="numpy")(np.ones((1, 3), "float32"))
    assert [a.shape for a in found] == [(2,), (1, 3), (3,), (2, 2), (3,), (2,), (1, 3),
                                        (2,), (3, 1)]


@pytest.mark.parametrize(
    "create",
    [
        lambda **more: gt.zeros(2, **more),
        lambda **more: gt.ones(2, **more),
        lambda **more: gt.empty(2, **more),
        lambda **more: gt.full(2, 1.0, **more),
        lambda **more: gt.zeros_like(x, **more),
        lambda **more: gt.ones_like(x, **more),
        lambda **more: gt.empty_like(x, **more),
        lambda **more: gt.full_like(x, 1, **more),
        lambda **more: gt.arange(3, **more),
        lambda **more: gt.eye(2, **more),
        lambda **more: gt.linspace(0, 1, 3, **more),
        lambda **more: gt.asarray(1, **more),
        lambda **more: gt.from_dlpack(np.ones(2), **more),
        lambda **more: gt.astype(x, "int32", **more),
        lambda **more: gt.fft.fftfreq(3, **more),
        lambda **more: gt.fft.rfftfreq(3, **more),
    ],
)
def test_another_device_is_refused(create):
    with pytest.raises(graphc.GraphError, match="a graph names no device") as caught:
        create(device="cpu")
    assert "\n  got: device='cpu'\n" in str(caught.value)
