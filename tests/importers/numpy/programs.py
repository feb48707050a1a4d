"""Generated NumPy programs that write in place, through views and views of views."""

import random

MAKING = [
    "x.copy()", "x * 2", "x + 0", "np.zeros(n)", "np.ones((2, n))", "np.zeros((3, 4))",
    "np.arange(12.0).reshape(3, 4)", "np.outer(x[:3], x[:4])", "np.stack([x, x])",
    "np.full((2, 3), x[0])", "np.array([x[0], 1.0, x[1]])", "np.negative(x)",
    "np.zeros_like(x)", "np.eye(3)", "np.tile(x[:2], 2)", "np.where(x > 0, x, 0)",
    "np.concatenate([x, x])", "np.sort(TABLE)", "np.linspace(0, 1, 4)",
]  # fmt: skip
VIEWS = [
    "{v}[0]", "{v}[1:]", "{v}[::-1]", "{v}[..., 0]", "{v}[..., 1:]", "{v}.T",
    "{v}[None]",
    "{v}[-1:]", "{v}.reshape(-1)", "{v}.ravel()", "np.ravel({v})", "np.atleast_2d({v})",
    "np.split({v}, [1])[1]", "np.expand_dims({v}, 0)", "{v}.swapaxes(0, -1)",
    "np.flip({v}, 0)", "np.asarray({v})", "{v}[:]", "{v}[...]", "np.transpose({v})",
    "{v}.astype('float64', copy=False)", "np.moveaxis({v}, 0, -1)", "np.squeeze({v})",
    "np.atleast_1d({v})", "{v}.view()", "np.array({v}, copy=False)", "np.rot90({v})",
    "np.broadcast_to({v}, (2, *{v}.shape))", "np.diagonal({v})",
    "np.einsum('ij->ji', {v})", "np.einsum('ii->i', {v})", "np.reshape({v}, (-1, 2))",
    "np.reshape({v}, -1, order='F')", "{v}.copy()", "np.array({v})", "{v}[[0, 1]]",
    "{v}[{v} > 0]", "np.swapaxes({v}, 0, -1)", "{v}.squeeze()", "{v}.real",
    "{v}.flatten()", "np.hsplit({v}, 2)[0]",
]  # fmt: skip
WRITES = [
    "{v}[0] = {e}", "{v}[1:] = {e}", "{v}[..., 0] = {e}", "{v}[::2] += {e}",
    "{v} += {e}",
    "{v} *= 2", "{v}[-1] -= 1", "{v}[{v} > 0.5] = {e}", "{v}.fill({e})", "{v}.sort()",
    "{v}[[0, 1]] = {v}[[1, 0]]", "np.add({v}, {e}, out={v})", "np.add.at({v}, 0, {e})",
    "np.multiply({v}, 2, out={v})", "np.copyto({v}, {e})", "np.put({v}, [0, 1], {e})",
    "np.maximum({v}, 0.5, out={v})", "{v}.flat[0] = {e}", "np.clip({v}, 0, 1, out={v})",
    "{v}[...] = {e}", "np.putmask({v}, {v} > 1, {e})", "np.place({v}, {v} > 1, {e})",
    "np.nan_to_num({v}, copy=False)", "np.fill_diagonal({v}, {e})", "{v} /= 2",
    "np.put_along_axis({v}, np.array([0]), {e}, 0)", "{v}[[0, 0]] += {e}",
    "np.add.at({v}, [0, 0, 1], {e})", "{v}[0], {v}[1] = {v}[1], {v}[0]",
    "np.copyto({v}, {e}, where={v} > 0)", "np.exp({v}, out={v})", "{v} -= {v}.mean()",
    "np.add({v}, 1, out={v}, where={v} > 0)", "{v}[0:2] = {v}[1:3]",
    "{v}[1:] = {v}[:-1]",
    "np.cumsum({v}, axis=0, out={v})", "{v}.put([0], {e})", "{v}.partition(1)",
    "np.subtract({v}, {w}, out={v})", "{v} += {w}", "{v}[:] = {w}", "{v}[0] = {w}[0]",
    "for row in {v}: row += {e}", "for i in range(2): {v}[i] = {v}[i] + {e}",
    "for i, row in enumerate({v}): row[...] = i + {e}", "add_to({v}, {e})", "{v} **= 2",
    "{v}[1][...] = {e}", "{v}[1:][0] = {e}", "{v}.T[0] = {e}", "{v}[::-1][0] = {e}",
]  # fmt: skip
NUMBERS = ["1.5", "x[0]", "x[1] * 2", "x.sum()", "np.float64(3)", "{w}.max()", "-2"]
HEAD = '''
TABLE = np.array([3.0, 1.0, 2.0, 0.5])

def add_to(array, number):
    array += number

def program(x):
    n = x.shape[0]
'''


def text_of(seed):
    """Write a program of 3 to 12 statements that returns all of its arrays."""
    chance = random.Random(seed)
    lines, names = [], ["x"]
    for _ in range(chance.randint(3, 12)):
        kind = chance.random()
        new = f"v{len(names)}"
        own = names[1:][-3:] if chance.random() < 0.9 else names[:1]
        v, w = chance.choice(own or names), chance.choice(names)
        if len(names) == 1 or kind < 0.2:
            lines.append(f"{new} = {chance.choice(MAKING)}")
            names.append(new)
        elif kind < 0.5:
            lines.append(f"{new} = {chance.choice(VIEWS).format(v=v)}")
            names.append(new)
        else:
            e = chance.choice(NUMBERS).format(w=w)
            lines.append(chance.choice(WRITES).format(v=v, w=w, e=e))
    lines.append(f"return {', '.join(names[1:]) or 'x'},")
    return HEAD + "\n".join(f"    {line}" for line in lines) + "\n"
