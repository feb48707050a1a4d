"""Rules for accelerators: fewer kernels to launch. On a CPU none of them applies."""

from graphc.analysis.cost import CPU, DeviceCosts
from graphc.ir.graph.bodies import runs_in_python, with_inner_nodes
from graphc.ir.graph.nodes import Graph, Node
from graphc.ir.graph.replay import Replaced
from graphc.ir.primitives import OP
from graphc.rewriting.engine.rule import Rule, Rules, whole_graph
from graphc.rewriting.loops.find.scan_view import with_params
from graphc.rewriting.loops.find.work import work_of
from graphc.rewriting.rules.attention import attention_rule

MOST_NODES = 256  # of steps that are done together: each is compiled


def unrolling(costs: DeviceCosts = CPU) -> Rule:
    """Make the rule that does several small steps of a scan in one turn of its loop."""

    @whole_graph(
        over=("scan",), exact=False, name="steps_together", late=True, tuned=unrolling
    )
    def rule(graph: Graph) -> Replaced | None:
        """Several small steps of a scan are one turn of its loop, on accelerators."""
        if not costs.launches:
            return None
        nodes = graph.nodes
        counts = {n: _steps_per_turn(n, costs) for n in nodes if n.primitive is OP.scan}
        params = {n: {"unroll": count} for n, count in counts.items() if count > 1}
        return with_params(graph, nodes, params) if params else None

    return rule


def _steps_per_turn(node: Node, costs: DeviceCosts) -> int:
    """How many steps of a scan one turn should do."""
    params = node.params
    if params["stops"] or params["counted"] or runs_in_python(node):
        return 1
    if params["unroll"] != 1 or params["unroll"] is True:  # the user has said so
        return 1
    nodes = list(with_inner_nodes(params["body"].content.nodes))
    seconds = costs.step + sum(map(work_of, nodes)) / costs.products
    if costs.small_step < seconds:
        return 1
    count = 1
    while 2 * count <= costs.together and 2 * count * len(nodes) <= MOST_NODES:
        count *= 2
    return count


ACCELERATORS = Rules((unrolling(), attention_rule()))
