"""The call of a body in a program."""

from graphc.ir.op import Printing


def body_call(p: Printing, carries: int, sequences: int) -> tuple[str, str]:
    """The name of a printed body, and its arguments: carries, rows, and the rest.

    Behind the rest come the sizes that its inputs do not tell.
    """
    params = p.node.params
    name = p.inner(params["body"].content)
    split = carries + sequences
    rest = [*p.inputs[split:], *map(p.code, params["sizes"])]
    parts = p.inputs[:carries], p.inputs[carries:split], rest
    return name, ", ".join(f"[{', '.join(part)}]" for part in parts)
