"""A sample for each PyTensor Op that has a conversion: a graph and its arguments.

The gradients of `smooth` samples are compared too.
"""

from dataclasses import dataclass
from inspect import signature

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor import scalar as ps
from pytensor.ifelse import ifelse
from pytensor.scan.utils import until
from pytensor.tensor import fft
from pytensor.tensor.elemwise import CAReduce, Elemwise

UNIT = np.array([[0.1, 0.5, 0.9], [0.3, 0.7, 0.2]])
REAL = np.array([[-1.5, 0.25, 2.0], [0.75, -0.5, 1.25]])
POSITIVE = np.array([[0.5, 1.5, 2.5], [0.25, 3.0, 1.0]])
OTHER = np.array([[0.75, 0.4, 1.2], [2.2, 0.6, 1.7]])
INTEGER = np.array([[3, -2, 0], [5, 1, -7]])
COUNTS = np.array([[3, 2, 1], [5, 1, 4]])
MASK = REAL > 0
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
VECTOR = np.array([0.5, -1.0, 2.0, 0.25])


@dataclass(frozen=True)
class Sample:
    name: str
    build: object
    arrays: tuple
    smooth: bool


SAMPLES = {}


def sample(family, name, build, *arrays, smooth=True):
    """Add a sample; `build` must leave out names that this PyTensor lacks."""
    arrays = tuple(map(np.asarray, arrays))
    found = Sample(name, build, arrays, smooth)
    SAMPLES.setdefault(family, []).append(found)


def elementwise(names, *arrays, smooth=False):
    for name in names.split():
        function = getattr(pt, name, None)
        if function is not None:
            sample("elementwise", name, function, *arrays, smooth=smooth)


elementwise("exp exp2 expm1 sqr sin cos tan arctan sinh cosh tanh neg", REAL)
elementwise("arcsinh sigmoid softplus erf erfc erfcx abs deg2rad rad2deg", REAL)
elementwise(
    "log log2 log10 log1p sqrt reciprocal gamma gammaln psi tri_gamma", POSITIVE
)
elementwise("i0 i1 j0 j1", POSITIVE)
elementwise("arcsin arccos arctanh erfinv erfcinv", UNIT)
elementwise("arccosh", POSITIVE + 1)
elementwise("log1mexp", -POSITIVE)
elementwise("sign sgn ceil floor trunc round isnan isinf", REAL)
elementwise("round_half_to_even round_half_away_from_zero", REAL * 2)
elementwise("add sub mul true_div maximum minimum arctan2", REAL, OTHER)
elementwise("int_div mod lt gt le ge eq neq", REAL, OTHER)
elementwise("pow", POSITIVE, OTHER)
elementwise("int_div mod bitwise_and bitwise_or bitwise_xor", INTEGER, COUNTS)
elementwise("invert sqr abs neg sign", INTEGER)
elementwise("and_ or_ xor", MASK, REAL > 1)
elementwise("invert", MASK)
elementwise("switch", MASK, REAL, OTHER)
elementwise("clip", REAL, UNIT * 0, UNIT)
elementwise("second", REAL, OTHER)
elementwise("gammainc gammaincc gammal gammau kve ive iv jv", POSITIVE, OTHER)
elementwise("gammaincinv gammainccinv", POSITIVE, UNIT)
elementwise("betainc betaincinv", POSITIVE, OTHER, UNIT)
elementwise("hyp2f1", POSITIVE, OTHER, POSITIVE + 1, UNIT * 0.5)
elementwise("owens_t", REAL, OTHER)
elementwise("polygamma", COUNTS, POSITIVE)
elementwise("real imag conj angle abs", REAL + 1j * OTHER)
elementwise("complex", REAL, OTHER)
elementwise("exp sqrt sin sigmoid", abs(INTEGER).astype("int8"))
elementwise("add mul sub", INTEGER.astype("int8"), REAL.astype("float32"))
elementwise("true_div", INTEGER, COUNTS)
sample("elementwise", "Cast", lambda x: x.astype("int16"), REAL, smooth=False)
sample("elementwise", "XlogX", lambda x: pt.xlogx.xlogx(x), POSITIVE, smooth=False)
sample(
    "elementwise",
    "XlogY0",
    lambda x, y: pt.xlogx.xlogy0(x, y),
    POSITIVE,
    OTHER,
    smooth=False,
)
sample("elementwise", "scalar", lambda x: x[:1] * 2 + 1, np.arange(3.0))
sample("elementwise", "gammainc_grad", pt.gammainc, POSITIVE, OTHER)
sample("elementwise", "betainc_grad", pt.betainc, POSITIVE, OTHER, UNIT)


def composite(x, y):
    a, b = ps.float64(), ps.float64()
    return Elemwise(ps.Composite([a, b], [ps.exp(a) * b + 1, a - b]))(x, y)


sample("elementwise", "Composite", composite, REAL, OTHER, smooth=False)


def arrays(name, build, *given, smooth=True):
    sample("arrays", name, build, *given, smooth=smooth)


CUBE = np.arange(24.0).reshape(2, 3, 4)
arrays("DimShuffle", lambda x: x.dimshuffle(2, "x", 0, 1), CUBE)
arrays("squeeze", lambda x: pt.specify_shape(x, (2, 1, 3))[:, 0].T, REAL[:, None])
arrays("Shape", lambda x: x.shape, CUBE, smooth=False)
arrays("Shape_i", lambda x: x.shape[1] * x.shape[0], CUBE, smooth=False)
arrays("SpecifyShape", lambda x: pt.specify_shape(x, (2, None)), REAL)
arrays("Reshape", lambda x: x.reshape((x.shape[0], -1)), CUBE)
arrays("Reshape_by", lambda x, s: pt.reshape(x, s, ndim=2), CUBE, np.array([6, 4]))
arrays("flatten", lambda x: x.flatten(2), CUBE)
arrays("Alloc", lambda x, n: pt.alloc(x, n, 3), VECTOR[:3], 2)
arrays("zeros", lambda x: pt.zeros_like(x) + pt.ones(x.shape[1]), REAL)
arrays("Eye", lambda x, n: pt.eye(n, 3, 1) * x, REAL[0], 2)
arrays("Tri", lambda x: pt.tril(x) + pt.triu(x, 1), SQUARE)
arrays("ARange", lambda n: pt.arange(1, n, 2), 8, smooth=False)
arrays("ARange_float", lambda x: pt.arange(x, 3.0, 0.5), 1.0, smooth=False)
arrays("MakeVector", lambda x: pt.stack([x[0], x[1] * 2, 3.0]), VECTOR)
arrays("Join", lambda x, y: pt.join(1, x, y), REAL, OTHER)
arrays("concatenate", lambda x, y: pt.concatenate([x, y[:1]], axis=-2), REAL, OTHER)
arrays("stack", lambda x, y: pt.stack([x, y], axis=1), REAL, OTHER)
arrays(
    "Split", lambda x, s: pt.split(x, s, n_splits=2, axis=0), VECTOR, np.array([1, 3])
)
arrays("ExtractDiag", lambda x: pt.diagonal(x, 1, 0, 2), CUBE)
arrays("AllocDiag", lambda x: pt.diag(x), VECTOR)
arrays("Nonzero", lambda x: list(pt.nonzero(x)), MASK, smooth=False)
arrays("Repeat", lambda x, n: pt.repeat(x, n, axis=0), REAL, np.array([2, 1]))
arrays("repeat", lambda x: pt.repeat(x, 2, axis=1), REAL)
arrays("tile", lambda x: pt.tile(x, (2, 1)), REAL)
arrays("CumOp", lambda x: pt.cumsum(x, axis=1) + pt.cumprod(x, axis=0), REAL)
arrays("cumsum", lambda x: pt.cumsum(x), REAL)
arrays(
    "cumsum_of_a_mask",
    lambda x: (
        [pt.cumsum(x > 0), pt.cumsum(x > 0) - 1, pt.cumsum(x > 0)[-1]]
        + [pt.sort(pt.cumsum(x > 0)), pt.repeat(pt.cumsum(x > 0), 2)]
        + [pt.set_subtensor(pt.cumsum(x > 0)[0], np.array(True))]
    ),
    REAL,
    smooth=False,
)
arrays("Searchsorted", pt.searchsorted, np.arange(5.0), REAL, smooth=False)
arrays("Unique", lambda x: pt.unique(x), INTEGER % 3, smooth=False)
arrays(
    "Unique_more",
    lambda x: list(pt.unique(x, return_inverse=True, return_counts=True)),
    np.array([2, 1, 2, 5]),
    smooth=False,
)
arrays("Bartlett", lambda n: pt.bartlett(n), 5, smooth=False)
arrays("FillDiagonal", lambda x: pt.fill_diagonal(x, 9.0), SQUARE)
arrays("Sort", lambda x: pt.sort(x, axis=1), REAL)
arrays("ArgSort", lambda x: pt.argsort(x, axis=0), REAL, smooth=False)
arrays("roll", lambda x: pt.roll(x, 1, axis=1), REAL)
arrays("pad", lambda x: pt.pad(x, ((1, 0), (0, 2)), constant_values=7.0), REAL)
arrays("pad_reflect", lambda x: pt.pad(x, 1, mode="reflect"), REAL, smooth=False)
arrays("flip", lambda x: pt.flip(x), REAL)
arrays("swapaxes", lambda x: pt.moveaxis(pt.swapaxes(x, 0, 1), -1, 0), CUBE)
arrays("broadcast_to", lambda x: pt.broadcast_to(x, (4, x.shape[0])), VECTOR)
arrays("diff", lambda x: pt.diff(x, axis=1), REAL)
arrays("bincount", lambda x: pt.bincount(x), COUNTS[0], smooth=False)
arrays("where", lambda x: pt.where(x > 0, x, 0.0), REAL)
arrays("choose", lambda x, y: pt.choose(x, y), np.array([0, 1, 0]), REAL, smooth=False)
arrays("linspace", lambda n: pt.linspace(0.0, 2.0, n), 5, smooth=False)
arrays("unravel", lambda x: list(pt.unravel_index(x, (2, 3))), COUNTS[0], smooth=False)


def parts(name, build, *given, smooth=True):
    sample("parts", name, build, *given, smooth=smooth)


LONG = np.arange(20.0).reshape(5, 4) ** 1.5
ROWS = np.array([3, 0, -1])
parts("Subtensor", lambda x: x[1:4, -2], LONG)
parts("Subtensor_steps", lambda x: x[::-2, 1::2], LONG)
parts("Subtensor_symbolic", lambda x, i: x[i:, : i + 1], LONG, 2)
parts("Subtensor_item", lambda x, i: x[i] * x[-1, i], LONG, 2)
parts("Subtensor_negative", lambda x, i: x[i:], LONG, -2)
parts("AdvancedSubtensor1", lambda x, i: x[i], LONG, ROWS)
parts("AdvancedSubtensor", lambda x, i: x[i, :2], LONG, ROWS)
parts("AdvancedSubtensor_two", lambda x, i, j: x[i, j], LONG, ROWS, np.array([1, 1, 2]))
parts("AdvancedSubtensor_new", lambda x, i: x[:, None, i], LONG, ROWS)
parts(
    "AdvancedSubtensor_2d",
    lambda x, i: x[i[:, None], i[None]],
    LONG,
    np.array([3, 0, 1]),
)
parts("boolean", lambda x: x[x > 10.0], LONG)
parts("boolean_rows", lambda x: x[x[:, 0] > 10.0], LONG)
parts("IncSubtensor", lambda x, y: x[1:3, 0].inc(y), LONG, VECTOR[:2])
parts("SetSubtensor", lambda x, y: x[1:3, 0].set(y), LONG, VECTOR[:2])
parts("SetSubtensor_scalar", lambda x: x[2].set(5.0), LONG)
parts("AdvancedIncSubtensor1", lambda x, i, y: x[i].inc(y), LONG, ROWS * 0, LONG[:3])
parts("AdvancedSetSubtensor1", lambda x, i, y: x[i].set(y), LONG, ROWS, LONG[:3])
parts("AdvancedIncSubtensor", lambda x, i: x[i, i].inc(2.0), LONG, np.array([1, 1, 2]))
parts("boolean_set", lambda x: x[x > 10.0].set(0.0), LONG)
parts("boolean_inc", lambda x: x[x > 10.0].inc(x[x > 10.0]), LONG)
parts("take", lambda x, i: pt.take(x, i, axis=1), LONG, np.array([[0, 1], [3, 2]]))
parts(
    "take_along_axis",
    lambda x, i: pt.take_along_axis(x, i, 1),
    LONG,
    np.zeros((5, 1), int),
)


def reductions(name, build, *given, smooth=True):
    sample("reductions", name, build, *given, smooth=smooth)


reductions("Sum", lambda x: x.sum(axis=(0, 2)), CUBE)
reductions("Sum_all", lambda x: x.sum() + x.mean(axis=1, keepdims=True), CUBE)
reductions(
    "Sum_integer", lambda x: x.sum(), np.array([100, 100, 100], "int8"), smooth=False
)
reductions("Sum_bool", lambda x: x.sum(), MASK, smooth=False)
reductions("Prod", lambda x: x.prod(axis=1), POSITIVE)
reductions("Prod_zeros", lambda x: x.prod(axis=1), REAL * MASK)
reductions("Max", lambda x: pt.max(x, axis=1), REAL)
reductions("Min", lambda x: pt.min(x), REAL)
if "initial" in signature(pt.max).parameters:
    empty = REAL[:0]
    reductions("Max_initial", lambda x: pt.max(x, 0, initial=-np.inf), empty)
    reductions("Min_initial", lambda x: pt.min(x, 0, initial=np.inf), empty)
reductions("All", lambda x: pt.all(x, axis=0), MASK, smooth=False)
reductions("Any", lambda x: pt.any(x), MASK, smooth=False)
reductions("Argmax", lambda x: pt.argmax(x, axis=1), REAL, smooth=False)
reductions("Argmax_all", lambda x: pt.argmax(x) + pt.argmin(x), REAL, smooth=False)
reductions(
    "max_and_argmax", lambda x: list(pt.max_and_argmax(x, axis=-1)), REAL, smooth=False
)
reductions("xor", lambda x: CAReduce(ps.xor, axis=(1,))(x), MASK, smooth=False)
reductions("or", lambda x: CAReduce(ps.or_, axis=(1,))(x), INTEGER, smooth=False)
reductions("var", lambda x: pt.var(x, axis=1) + pt.std(x), REAL)
reductions("norm", lambda x: pt.linalg.norm(x), REAL)
reductions("Softmax", lambda x: pt.special.softmax(x, axis=1), REAL)
reductions("Softmax_all", lambda x: pt.special.softmax(x), REAL)
reductions("LogSoftmax", lambda x: pt.special.log_softmax(x, axis=0), REAL)
reductions("logsumexp", lambda x: pt.logsumexp(x, axis=1), REAL)
reductions("Dot", lambda x, y: pt.dot(x, y.T) + x[0] @ y[1], REAL, OTHER)
reductions("Dot_integer", lambda x, y: pt.dot(x, y.T), INTEGER, COUNTS, smooth=False)
reductions("BatchedDot", lambda x: pt.matmul(x, x.transpose(0, 2, 1)), CUBE)
reductions("matmul", lambda x, y: pt.matmul(x, y), CUBE, CUBE.transpose(0, 2, 1))
reductions("tensordot", lambda x, y: pt.tensordot(x, y, [[1, 2], [1, 2]]), CUBE, CUBE)
reductions("einsum", lambda x, y: pt.einsum("ij,kj->ik", x, y), REAL, OTHER)
reductions("outer", lambda x: pt.outer(x, x[:2]), VECTOR)


def algebra(name, build, *given, smooth=True):
    sample("algebra", name, build, *given, smooth=smooth)


TWO = np.stack([SQUARE, SQUARE * 2 + np.eye(3)])
algebra("Cholesky", lambda a: pt.linalg.cholesky(a), SQUARE)
algebra("Cholesky_upper", lambda a: pt.linalg.cholesky(a, lower=False), SQUARE)
algebra("Cholesky_batch", lambda a: pt.linalg.cholesky(a), TWO)
algebra("Solve", lambda a, b: pt.linalg.solve(a, b), SQUARE, SQUARE[:, :2])
algebra("Solve_vector", lambda a, b: pt.linalg.solve(a, b, b_ndim=1), SQUARE, SQUARE[0])
algebra(
    "Solve_pos",
    lambda a, b: pt.linalg.solve(a + a.T, b, assume_a="pos"),
    SQUARE,
    SQUARE[:, :2],
)
algebra(
    "Solve_sym",
    lambda a, b: pt.linalg.solve(a + a.T, b, assume_a="sym"),
    SQUARE,
    SQUARE[:, :2],
)
algebra("Solve_batch", lambda a, b: pt.linalg.solve(a, b), TWO, SQUARE[:, :2])
algebra(
    "SolveTriangular",
    lambda a, b: pt.linalg.solve_triangular(a, b, lower=True),
    SQUARE,
    SQUARE,
)
algebra(
    "SolveTriangular_upper",
    lambda a, b: pt.linalg.solve_triangular(a, b),
    SQUARE,
    SQUARE,
)
algebra(
    "CholeskySolve",
    lambda a, b: pt.linalg.cho_solve((a, True), b),
    SQUARE,
    SQUARE,
    smooth=False,
)
algebra("MatrixInverse", lambda a: pt.linalg.inv(a), SQUARE)
algebra("MatrixInverse_batch", lambda a: pt.linalg.inv(a), TWO)
algebra("MatrixPinv", lambda a: pt.linalg.pinv(a), SQUARE[:, :2])
algebra("Det", lambda a: pt.linalg.det(a), SQUARE)
algebra("SLogDet", lambda a: list(pt.linalg.slogdet(a)), SQUARE, smooth=False)
algebra("Eigh", lambda a: list(pt.linalg.eigh(a))[0], SQUARE, smooth=False)
algebra("SVD", lambda a: pt.linalg.svd(a, compute_uv=False), SQUARE)
algebra(
    "QR",
    lambda a: abs(pt.linalg.qr(a, mode="economic")[1]),
    SQUARE[:, :2],
    smooth=False,
)
algebra("LU", lambda a: list(pt.linalg.lu(a)), SQUARE, smooth=False)
algebra("LUFactor", lambda a: list(pt.linalg.lu_factor(a)), SQUARE, smooth=False)
algebra("Expm", lambda a: pt.linalg.expm(a / 4), SQUARE, smooth=False)
algebra(
    "Sylvester", lambda a, b: pt.linalg.solve_sylvester(a, a, b), SQUARE, SQUARE[::-1]
)
algebra("BlockDiagonal", lambda a: pt.linalg.block_diag(a, 2 * a[:2]), SQUARE)
algebra("Kronecker", lambda a: pt.linalg.kron(a, a[:2]), SQUARE)
algebra("matrix_power", lambda a: pt.linalg.matrix_power(a, 3), SQUARE)
algebra("Eig", lambda a: abs(pt.linalg.eig(a)[0]).sum(), SQUARE, smooth=False)
algebra("Schur", lambda a: abs(pt.linalg.schur(a)[0]).sum(), SQUARE, smooth=False)
algebra(
    "Lstsq",
    lambda a, b: pt.linalg.lstsq(a, b, -1.0)[0],
    SQUARE[:, :2],
    SQUARE[0],
    smooth=False,
)
algebra("RFFT", lambda x: fft.rfft(x), LONG)
algebra("IRFFT", lambda x: fft.irfft(fft.rfft(x) * 2, norm="ortho"), LONG, smooth=False)
signal = pt.signal
algebra(
    "Convolve1d", lambda x, y: signal.convolve1d(x, y, mode="full"), LONG[0], VECTOR[:2]
)
algebra(
    "Convolve1d_valid",
    lambda x, y: signal.convolve1d(x, y, mode="valid"),
    LONG[0],
    VECTOR[:2],
)
algebra(
    "Convolve1d_same",
    lambda x, y: signal.convolve1d(x, y, mode="same"),
    LONG[0],
    VECTOR[:2],
)
algebra(
    "Convolve2d",
    lambda x, y: signal.convolve2d(x, y, mode="valid"),
    LONG,
    SQUARE[:2, :2],
)


def control(name, build, *given, smooth=True):
    sample("control", name, build, *given, smooth=smooth)


control(
    "IfElse",
    lambda c, x, y: ifelse(c > 0, x * 2, y.sum(keepdims=True)),
    1.0,
    VECTOR,
    VECTOR,
)
control(
    "IfElse_false", lambda c, x, y: ifelse(c > 0, x, y[:2] * 3), -1.0, VECTOR, VECTOR
)
control(
    "CheckAndRaise",
    lambda x: pt.exp(pytensor.raise_op.Assert("no")(x, x.sum() > 0)),
    VECTOR,
)


def subgraph(x, y):
    a, b = pt.dmatrix(), pt.dmatrix()
    inner = pytensor.compile.builders.OpFromGraph([a, b], [pt.tanh(a) @ b.T])
    return inner(x, y)


control("OpFromGraph", subgraph, REAL, OTHER)


def scanned(step, outputs, sequences=(), n_steps=None, non_sequences=(), **options):
    made = pytensor.scan(
        step,
        outputs_info=outputs,
        sequences=sequences,
        n_steps=n_steps,
        non_sequences=non_sequences,
        return_updates=False,
        **options,
    )
    return made


def loops(name, build, *given, smooth=True):
    sample("loops", name, build, *given, smooth=smooth)


ZERO = pt.constant(0.5, dtype="float64")
loops("map", lambda x: scanned(lambda a: pt.sin(a) * 2, None, [x]), LONG)
loops("sit_sot", lambda x: scanned(lambda a, y: y * 0.5 + a, [ZERO], [x]), VECTOR)
loops("last", lambda x: scanned(lambda a, y: pt.tanh(y) + a, [ZERO], [x])[-1], VECTOR)
loops("n_steps", lambda x, n: scanned(lambda y: y * 1.5, [x], n_steps=n), VECTOR, 4)
loops(
    "taps",
    lambda x: scanned(
        lambda a, b, p, q: pt.sin(p) * 0.5 + q * b - a,
        [{"initial": x[:2], "taps": [-2, -1]}],
        [{"input": x, "taps": [0, 1]}],
    ),
    VECTOR,
)
loops(
    "both",
    lambda x, w: scanned(
        lambda a, h, w: [pt.tanh(h @ w + a), (h**2).sum()],
        [x[0], None],
        [x],
        non_sequences=[w],
    ),
    LONG / 50,
    np.eye(4) * 0.5 + 0.1,
)
loops(
    "backwards",
    lambda x: scanned(lambda a, y: y * a, [ZERO], [x], go_backwards=True),
    VECTOR,
)
loops(
    "until",
    lambda x: scanned(lambda y: (y * 2, until(y > 20)), [x], n_steps=50),
    0.7,
)
loops(
    "truncated",
    lambda x: scanned(lambda a, y: y * a, [ZERO], [x], truncate_gradient=2),
    VECTOR,
)
loops(
    "nested",
    lambda x: scanned(
        lambda row, t: t + scanned(lambda a, y: y + a**2, [ZERO], [row])[-1],
        [ZERO],
        [x],
    ),
    LONG / 10,
)
