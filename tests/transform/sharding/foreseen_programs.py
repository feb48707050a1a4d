"""Messages that rules foresee, compared with XLA's: run on eight devices."""

from functools import cache

import graphc
import graphc.tensor as gt
from graphc.ops.special import of_jax
from tests.transform.sharding import laid_by_hand, sharded_programs

ROWS = {"batch": graphc.Shard("data")}


@cache
def mesh_of_all():
    """The mesh of all devices; made late, as there are few when tests are collected."""
    return graphc.mesh(data=4)


def perceptron():
    """A perceptron of equal blocks, printed as one function, and their momentum."""
    x = gt.tensor("x", "float32", ("batch", 8))
    t = gt.tensor("t", "float32", ("batch",))
    weights = [gt.tensor(f"w{i}", "float32", (8, 8)) for i in range(6)]
    speeds = [gt.tensor(f"s{i}", "float32", (8, 8)) for i in range(6)]
    h = x
    for w in weights:
        h = gt.nn.gelu(h @ w) + h
    loss = gt.mean((gt.sum(h, axis=1) - t) ** 2)
    slopes = graphc.grad(loss, weights)
    speeds_after = [0.9 * s + 0.1 * g for s, g in zip(speeds, slopes, strict=True)]
    after = [w - 0.1 * s for w, s in zip(weights, speeds_after, strict=True)]
    return [x, t, *weights, *speeds], [loss, *after, *speeds_after]


def recurrent():
    """A loop over time with a batch in its carry, elements of rows, gradients."""
    x = gt.tensor("x", "float32", ("batch", 6, 3))
    w, u = (gt.tensor(n, "float32", (k, 4)) for n, k in (("w", 4), ("u", 3)))
    rows, labels = gt.arange(x.shape[0]), gt.tensor("labels", "int32", ("batch",))

    def step(c, row):
        c = gt.tanh(c @ w + row @ u)
        return c, c[rows, labels]

    start = gt.zeros((x.shape[0], 4), "float32")
    last, ys = gt.scan(step, start, gt.transpose(x, (1, 0, 2)))
    loss = gt.mean(last**2)
    return [x, w, u, labels], [loss, gt.sum(ys), *graphc.grad(loss, [w, u])]


def attending():
    """An embedding, attention and a softmax over words, with all gradients."""
    x = gt.tensor("x", "int32", ("batch", 8))
    table = gt.tensor("table", "float32", (50, 16))
    q, k, v = (gt.tensor(n, "float32", (16, 16)) for n in "qkv")
    h = table[x]
    heads = lambda w: gt.reshape(h @ w, (x.shape[0], 8, 2, 8))
    scores = gt.einsum("bthd,bshd->bhts", heads(q), heads(k))
    mixed = gt.einsum("bhts,bshd->bthd", gt.nn.softmax(scores), heads(v))
    flat = gt.reshape(mixed, (-1, 16))
    logits = gt.nn.log_softmax(flat @ table.T)
    loss = -gt.mean(gt.sum(logits * logits, axis=1))
    return [x, table, q, k, v], [loss, *graphc.grad(loss, [table, q, k, v])]


def convolved():
    """A convolution of images, and the gradient of its kernel."""
    x = gt.tensor("x", "float32", ("batch", 3, 8, 8))
    w = gt.tensor("w", "float32", (4, 3, 3, 3))
    d = gt.tensor("d", "float32", (4, 2))
    h = gt.mean(gt.nn.relu(gt.nn.conv(x, w)), axis=(2, 3)) @ d
    loss = gt.mean(h**2)
    return [x, w, d], [loss, *graphc.grad(loss, [w, d])]


def row_by_row():
    """Ops that devices do on their own rows; only sums and positions are sent."""
    x = gt.tensor("x", "float32", ("batch", 6, 6))
    rows, kinds = x[:, 0], gt.tensor("kinds", "int32", ("batch",))
    columns = gt.tensor("columns", "int32", ("batch", "batch"))
    matrices = x @ gt.swapaxes(x, 1, 2) + gt.eye(6)
    results = [
        *(gt.linalg.cholesky(matrices), gt.linalg.inv(matrices)),
        *(gt.linalg.solve(matrices, x), gt.linalg.svd(x, compute_uv=False)),
        *(gt.linalg.eigvalsh(matrices), gt.nn.max_pool(x[:, None], (2, 2))),
        *(gt.pad(rows, ((0, 0), (1, 2))), gt.searchsorted(gt.arange(4.0), rows)),
        *(gt.fft.fft(rows, axis=1), gt.fft.irfft(gt.fft.rfft2(x), axis=2)),
        *(gt.segment_sum(rows, kinds, 3), gt.resize(rows[:, 0], (5,))),
        gt.choose(kinds, [rows[:, 0], rows[:, 1]], mode="wrap"),
        gt.put_along_axis(rows, columns, 0.0, 1),  # masks of rows and of columns
    ]
    slope = graphc.grad(gt.sum(gt.abs(results[8]) ** 2), x)
    return [x, kinds, columns], [*results, slope]


def picking():
    """Elements and positions chosen in each row by its own numbers; no row is sent."""
    x = gt.tensor("x", "float32", ("batch", 6))
    y = gt.tensor("y", "float32", ("batch", 5, 6))
    labels = gt.tensor("labels", "int32", ("batch",))
    places = gt.tensor("places", "int32", ("batch", 5, 2))
    rows = gt.arange(x.shape[0])
    loss = -gt.mean(gt.nn.log_softmax(x)[rows, labels])
    taken = gt.take_along_axis(y, places, axis=2)
    highest = gt.take_along_axis(x, gt.argmax(x, axis=1)[:, None], axis=1)
    second, _ = gt.top_k(y, 2, axis=2)
    loss = loss + gt.sum(taken**2) + gt.sum(highest) + gt.sum(second**2)
    written = x.at[rows, labels].set(0.0)
    added = y.at[rows[:, None], 1, places[:, 0]].add(x[:, :2])
    slopes = graphc.grad(loss, [x, y])
    return [x, y, labels, places], [loss, *slopes, written, added]


def along_rows():
    """Ops along the batch that devices do on their parts and then combine."""
    x = gt.tensor("x", "float32", ("batch", 3))
    running = gt.cumsum(x, axis=0), gt.cumprod(x, axis=0), gt.cummax(x, axis=0)
    later = gt.cumsum(x, axis=0, reverse=True), gt.cumlogsumexp(x, axis=0)
    largest = gt.top_k(x, 2, axis=0), gt.argmax(x, axis=0), gt.argmin(x[:, 0])
    sorted_rows = gt.sort(x, axis=0), gt.argsort(x[:, 1])
    slope = graphc.grad(gt.sum(running[0] ** 2), x)
    results = [*running, *later, *largest[0], *largest[1:], *sorted_rows, slope]
    return [x], results


def beside():
    """Neighbouring rows in both directions: each device takes few from neighbours."""
    x = gt.tensor("x", "float32", ("batch", 3))
    before = gt.concatenate([gt.zeros((2, 3), "float32"), x])
    curved = before[2:] - 2 * before[1:-1] + before[:-2]
    wider = gt.pad(x, ((1, 2), (0, 0)))
    loss = gt.sum(x[1:] * x[:-1]) + gt.sum(curved**2) + gt.sum(gt.sin(wider))
    return [x], [loss, graphc.grad(loss, x), gt.diff(x, axis=0), wider, x.at[1:].add(1)]


def windows():
    """Convolutions and pooling along a sharded axis."""
    x = gt.tensor("x", "float32", (2, 3, "batch", 8))
    w = gt.tensor("w", "float32", (4, 3, 3, 3))
    same, plain = gt.nn.conv(x, w, padding="SAME"), gt.nn.conv(x, w)
    pools = gt.nn.max_pool(x, (3, 3), stride=(1, 1)), gt.nn.avg_pool(x, (2, 2))
    wide = gt.convolve(x[0, 0, :, 0], w[0, 0, 0], "full")
    return [x, w], [same, plain, gt.sum(gt.nn.conv(x, w, dilation=2)), *pools, wide]


def in_groups():
    """A convolution of each channel alone, which gathers its images."""
    x = gt.tensor("x", "float32", (2, 3, "batch"))
    w = gt.tensor("w", "float32", (3, 1, 4))
    return [x, w], gt.nn.conv(x, w, groups=3)


def compiled(program, dims=ROWS, mesh=None):
    inputs, outputs = program()
    mesh = mesh or mesh_of_all()
    return graphc.function(inputs, outputs, dims=dims, mesh=mesh)


def tiled():
    """Temporaries that one device would compute in tiles if the batch is large."""
    x = gt.tensor("x", "float32", ("batch", 3))
    w, v = gt.tensor("w", "float32", (3, 64)), gt.tensor("v", "float32", (64,))
    loss = gt.mean((gt.tanh(x @ w) @ v) ** 2)
    return [x, w, v], [loss, *graphc.grad(loss, [w, v])]


def meeting():
    """Attention along a sharded axis, a factor of covariances, elements by index."""
    x = gt.tensor("x", "float32", ("batch", 1, 64))
    places = gt.tensor("places", "int32", (5,))
    mixed = gt.nn.dot_product_attention(gt.sin(x), gt.cos(x), x)
    rows = x[:, 0, :3]
    covariance = gt.exp(-gt.sum((rows[:, None] - rows) ** 2, axis=2))
    factor = gt.linalg.cholesky(covariance + gt.eye(x.shape[0]))
    return [x, places], [mixed, gt.sum(factor), x[places], x[:3]]


def stepping():
    """Steps that need all of their carry or leave it whole; a padded reversed array."""
    x = gt.tensor("x", "float32", ("batch",))

    def step(c, _):
        c = gt.sort(c * 0.5 + x) + gt.max(c)
        return c, gt.argmax(c)

    last, places = gt.scan(step, x, None, length=3)
    running, _ = gt.scan(lambda c, _: (gt.cumsum(c), None), x, None, length=3)
    return [x], [last, places, running, gt.pad(gt.sin(x), (0, 1))[::-1]]


def attended():
    """Gradients of attention, whose mask is used whole and by rows."""
    x = gt.tensor("x", "float32", (1, "batch", 1, 2))
    mixed = gt.nn.dot_product_attention(gt.cos(x), x, x)
    return [x], graphc.grad(gt.sum(gt.sin(mixed)), x)


def looping():
    """Elementwise ops with loops that end on all devices at once."""
    x, y = (gt.tensor(n, "float32", ("batch",)) for n in "xy")
    special = gt.special
    results = [f(x, y) for f in (special.gammainc, special.gammaincinv)]
    results += [special.betainc(x, x, y), special.betaincinv(x, x, y)]
    results += [f(x, y) for f in (of_jax.gammainc, of_jax.gammaincc, of_jax.zeta)]
    k = gt.tensor("k", "int32", ("batch",))
    results += [gt.gcd(k, 6), gt.lcm(4, k)]
    return [x, y, k], [*results, gt.random.ball(gt.random.key(0), 3, 2, x.shape)]


def shared():
    """Values gathered for some nodes but not for others; repeated and odd rows."""
    x, w = gt.tensor("x", "float32", ("batch", 3)), gt.tensor("w", "float32", (3,))
    up, down = gt.sin(x), gt.cos(x)
    scaled = down / gt.sqrt(gt.sum(down**2, axis=0))  # a device computes all of it
    results = [up[::-1] + gt.sum(up**2, axis=0), gt.linalg.qr(scaled)[1]]
    return [x, w], [*results, *gt.meshgrid(x[:, 0], x[:, 1]), gt.append(x, w[None], 0)]


def searching():
    """Masks that devices use by parts, and whole where they compute everything."""
    x, w = gt.tensor("x", "float32", ("batch",)), gt.tensor("w", "float32", (3,))
    return [x, w], [gt.searchsorted(gt.sort(x), w)]


def both_ways():
    """Masks and row numbers used both whole and by parts, in other shapes."""
    x = gt.tensor("x", "float32", ("batch", 3))
    y = gt.tensor("y", "float32", ("batch",))
    rolled, total = gt.roll(y, 1), gt.sum(x, axis=0)
    products = gt.einsum("i,jk,ij", gt.arange(x.shape[0]), gt.ones((3, 2)), x)
    slope = graphc.grad(gt.sum(rolled**2), y)
    return [x, y], [total, rolled, slope, gt.lexsort((y, y)), products]


def highest():
    """The largest elements without their positions, or only the positions."""
    x = gt.tensor("x", "float32", ("batch", 3))
    return [x], [gt.top_k(x, 2, axis=0)[0], gt.top_k(gt.sin(x), 3, axis=0)[1]]


def over_both():
    """Over two mesh axes, XLA sums and gathers along one axis, then along the other."""
    x = gt.tensor("x", "float32", ("batch", "others"))
    y = gt.tensor("y", "float32", ("others", 3, "batch"))
    sums = gt.sum(x), gt.mean(y, axis=(0, 2)), gt.tensordot(y, x, ([0, 2], [1, 0]))
    return [x, y], [*sums, gt.any(x > 0), gt.argmax(gt.abs(y)), gt.roll(x, 1, (0, 1))]


def undecided():
    """Programs in which XLA decides what is gathered or made, and one for the host."""
    x = gt.tensor("x", "float32", ("batch", 2))
    (q, _), left = gt.linalg.qr(x), gt.linalg.svd(x, full_matrices=False)[0]
    spectrum = gt.abs(gt.fft.fftn(x, s=(5, 3)))
    for result in q, left, spectrum:
        yield [x], graphc.grad(gt.sum(gt.sin(result)), x)
    yield [x], gt.special.hyp2f1(x, x, 2.5, 0.5)
    noise = gt.random.gamma(gt.random.key(3), 1.5, x.shape[:1])
    yield [x], gt.sum(noise) + gt.sum(x)
    weighted = gt.diff(x, axis=0) * gt.arange(1, x.shape[0])[:, None]
    yield [x], graphc.grad(gt.sum(weighted), x)
    matrix = gt.tensor("matrix", "float32", ("batch", "batch"))
    yield [matrix], gt.random.wishart(gt.random.key(3), 4.0, matrix)
    yield [x], graphc.grad(gt.sum(gt.cummax(x, axis=0) ** 2), x)
    even = gt.arange(x.shape[0]) // 2
    yield [x], gt.scan(lambda c, _: (c.at[even].add(c), None), x, None, length=3)[0]
    yield [x], x[: x.shape[0] // 3]  # rows of devices that are ever farther away
    t = gt.take_along_axis(x, gt.argsort(x, axis=0), axis=0)
    slope = graphc.grad(gt.sum(gt.diff(t, axis=0) ** 2), x)
    yield [x], [t, slope]  # rows are added to whole zeros and to their parts
    inserted = gt.insert(x[:, 0], 1, 5.0)  # whole, and given in parts
    yield [x], gt.cumsum(inserted)
    products = gt.transpose(x) @ gt.roll(gt.sort(x @ gt.transpose(x), axis=0), 1)
    yield [x], [products @ x]


def compared(function, batch=13, **others):
    """Compare the bytes sent with those foreseen, for a batch that is uneven."""
    read = function.collectives({"batch": batch, **others})
    assert read and all(one.count for one in read), [*map(str, read)]
    for one in read:
        assert one.predicted is not None, function.explain()
        assert abs(one.predicted - one.bytes) <= 0.1 * one.bytes, str(one)
    (line,) = [x for x in function.explain().splitlines() if "sends, by rule" in x]
    assert all(one.kind in line for one in read), line


def held(function, batch=13):
    """Compare the bytes on a device with XLA's, which counts 8 more per result."""
    memory = function.plan.forecast({"batch": batch}).memory
    lowered = function.lower({"batch": batch})
    pairs = zip(memory, lowered, function.plan.segments, strict=True)
    for ours, one, segment in pairs:
        read = one.compile().memory_analysis()
        theirs = read.argument_size_in_bytes + read.output_size_in_bytes
        assert 0 <= theirs - ours <= 8 * (len(segment.outputs) + 1), (ours, theirs)


PROGRAMS = (
    *(perceptron, recurrent, attending, convolved, row_by_row, picking, along_rows),
    *(beside, windows),
    sharded_programs.regression,
)


def compare_all():
    """Compare all programs, those that no rule is known for among them."""
    for program in PROGRAMS[:-1]:
        compared(compiled(program))
    compared(compiled(windows), batch=29)
    compared(compiled(meeting), batch=64)
    for program in stepping, attended, looping, in_groups, shared, searching:
        compared(compiled(program))
    for program in both_ways, highest:
        compared(compiled(program))
    both = ROWS | {"others": graphc.Shard("model")}
    compared(compiled(over_both, both, graphc.mesh(data=2, model=4)), others=9)
    for program in undecided():
        f = compiled(lambda program=program: program)
        assert "    no rule for " in f.explain(), f.explain()
        assert {one.predicted for one in f.collectives({"batch": 13})} == {None}
    compared(compiled(tiled), batch=2**17)  # sharded rows are not gathered
    mesh = laid_by_hand.mesh_of_all()
    compared(compiled(laid_by_hand.trained, laid_by_hand.ROWS, mesh))
    x = gt.tensor("x", "complex64", ("batch", 3))
    drawn = gt.random.gamma(gt.random.key(3), 1.5, (2, x.shape[0]))  # whole, then cut
    f = compiled(lambda: ([x], drawn + x[:, 0]))
    assert "    sends, by rule: nothing" in f.explain() and not f.collectives(
        {"batch": 9}
    )
    held(compiled(attending))
    held(compiled(perceptron))
    f = compiled(lambda: ([x], [gt.sort(x, axis=0), gt.sum(x)]))
    compared(f)
    lines = [line for line in f.explain().splitlines() if "sort at" in line]
    assert len(lines) == 1 and lines[0].startswith("    sort at "), lines
    assert lines[0].endswith("whole: 24*batch_capacity bytes to each device"), lines
