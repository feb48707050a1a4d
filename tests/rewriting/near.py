"""Programs near those that rules are written for: their code, changed in one place.

The condition of a rule is a border: on one side the rule applies, on the other it must
not. A change of an axis, a bound, a rank, a dtype or an order crosses it either way.
"""

import ast

VARIABLES = "x y u v w s pairs table many".split()
NUMBERS = (-2, -1, 0, 1, 2, 3)
FORMS = (
    *("{}[::-1]", "{}[:1]", "{}[1:]", "{}[::2]", "{}[-1]", "{}[:, None]", "{}[None]"),
    *("{}[..., :1]", "gt.roll({}, 1)", "gt.flip({})", "{}.T", "{}[{} > 0]"),
    *("gt.astype({}, 'int16')", "gt.astype({}, 'complex64')", "({} > 0)"),
    *("gt.astype({}, 'float16')", "gt.stack([{}, {}])", "gt.sum({}, 0)"),
    *("gt.where({} > 0, {}, np.nan)", "({} - 2 * {})", "gt.expand_dims({}, 0)"),
    *("gt.broadcast_to({}, (2, *{}.shape))", "{}[:gt.count_nonzero(i)]"),
    *("{}[gt.count_nonzero(i):]", "{}[gt.asarray([0, 0])]", "{}[:0]"),
)
FUNCTIONS = (
    *(("sum", "prod", "max", "min", "any", "all"), ("set", "add", "multiply", "max")),
    *(("cumsum", "cumprod", "cummax", "cummin", "sort", "argsort"),),
)
OPERATORS = (ast.Add(), ast.Sub(), ast.Mult(), ast.Div(), ast.MatMult())


def changed(code, rng):
    """Change the code of a program in one or two places."""
    tree = ast.parse(code, mode="eval")
    for _ in range(rng.integers(1, 3)):
        places = [node for node in ast.walk(tree) if _changes(node)]
        chosen = places[rng.integers(len(places))]
        changes = _changes(chosen)
        made = changes[rng.integers(len(changes))](rng)
        tree = ast.fix_missing_locations(_Replacing(chosen, made).visit(tree))
    return ast.unparse(tree)


class _Replacing(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else super().generic_visit(node)


def _changes(node):
    """The ways to change a part of a program; each is a function of the generator."""
    match node:
        case ast.Constant(value=bool(value)):
            return [lambda rng: ast.Constant(not value)]
        case ast.Constant(value=int()):
            return [_number, _number, lambda rng: ast.Constant(None)]
        case ast.Name(id=name) if name in VARIABLES:
            return [_variable, lambda rng: _formed(node, rng)]
        case ast.Tuple(elts=parts) if parts:
            return [lambda rng: ast.Tuple(parts[1:], node.ctx), lambda rng: parts[0]]
        case ast.Slice():
            return [_slice]
        case ast.BinOp(left=left, op=op, right=right):
            return [
                lambda rng: _formed(node, rng),
                lambda rng: ast.BinOp(right, op, left),
                lambda rng: ast.BinOp(left, OPERATORS[rng.integers(5)], right),
            ]
        case ast.Call(func=ast.Attribute(attr=name)):
            return [lambda rng: _formed(node, rng), *_calls(node, name)]
    return []


def _calls(node, name):
    others = [other for group in FUNCTIONS if name in group for other in group]
    if not others:
        return []
    named = [keyword.arg for keyword in node.keywords]
    kept = ast.keyword("keepdims", ast.Constant(True))
    return [
        lambda rng: _called(node, others[rng.integers(len(others))], []),
        lambda rng: _called(node, name, [] if "keepdims" in named else [kept]),
        lambda rng: ast.Call(node.func, node.args[:1], node.keywords),
    ]


def _called(node, name, more):
    function = ast.Attribute(node.func.value, name, ast.Load())
    return ast.Call(function, node.args, [*node.keywords, *more])


def _number(rng):
    return ast.Constant(int(rng.choice(NUMBERS)))


def _variable(rng):
    return ast.Name(VARIABLES[rng.integers(len(VARIABLES))], ast.Load())


def _slice(rng):
    bounds = (ast.Constant(n) for n in (None, *NUMBERS))
    bounds = list(bounds)
    return ast.Slice(*(bounds[rng.integers(len(bounds))] for _ in range(3)))


def _formed(node, rng):
    text = FORMS[rng.integers(len(FORMS))].replace("{}", f"({ast.unparse(node)})")
    return ast.parse(text, mode="eval").body
