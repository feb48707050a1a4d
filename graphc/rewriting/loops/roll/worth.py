"""Whether a loop of blocks is worth it: what the compiler saves, and what calls take.

How long a node takes to compile depends on who takes its values. If blocks only pass on
what they carry, their kernels are all the same, and XLA compiles these once. If a
gradient takes values of the blocks too, XLA fuses sums over all blocks before into the
kernels of each block, so that the kernels differ, and grow.
"""

from dataclasses import dataclass
from enum import Enum

from graphc.analysis.cost import DeviceCosts, seconds_of_slices

LEAST_SECONDS = 0.25  # of a core
# Where blocks are small, slices of their gradients make calls longer, until the kernels
# have grown by as much. Calls took 1.24, 1.13, 0.95 and 0.73 times as long as
# without loops for 24, 32, 48 and 64 blocks of 8 nodes, 0.76 for 24 of 20.
LEAST_IF_SMALL = 1.5
COPIED = 0.25  # of the time that a block takes
BACKWARD = 2  # nodes of a gradient, for each that it is of


class Role(Enum):
    """Who takes what blocks compute."""

    ALONE = "the end of the chain only"
    FORWARD = "a gradient, which is a chain of as many blocks"
    BACKWARD = "results, made of what an earlier chain computes"


@dataclass(frozen=True)
class Worth:
    """A chain of blocks: how many, the nodes of each, and who takes their results.

    `work` counts the operations of a block, `stacked` the elements that are copied for
    it to one array for all blocks, and `arrays` the arrays that it alone is given.
    """

    count: int
    nodes: int
    role: Role
    work: float
    stacked: int
    arrays: int

    @property
    def nodes_compiled(self) -> int:
        """How many nodes the compiler gets for each node of a block."""
        return 1 + BACKWARD if self.role is Role.FORWARD else 1

    def seconds_saved(self, costs: DeviceCosts) -> float:
        """Estimate the seconds of a core that a loop saves in compilation by XLA."""
        saved = self.nodes_compiled * (self.count - 1) * self.nodes
        if self.role is Role.ALONE:
            return saved * costs.compiled_alike - costs.looped
        seconds = saved * (costs.compiled + saved * costs.crowded)
        if self.role is Role.BACKWARD:
            return seconds - costs.looped
        return seconds - 2 * costs.looped - seconds_of_slices(self.count * self.arrays)

    def pays(self, costs: DeviceCosts) -> bool:
        """Whether compilation ends enough earlier, and calls take no longer."""
        seconds = self.seconds_saved(costs)
        if seconds >= LEAST_SECONDS and self.is_heavy(costs):
            return True
        slower = self.role is Role.FORWARD and not costs.launches
        least = LEAST_IF_SMALL if slower else LEAST_SECONDS
        return seconds >= least and self._copies_little(costs)

    def is_heavy(self, costs: DeviceCosts, least_work: int | None = None) -> bool:
        """Whether a block takes longer than the step of a loop, and than its copies."""
        least = costs.step_work if least_work is None else least_work
        return self.work >= max(least, costs.reuse * self.stacked)

    def _copies_little(self, costs: DeviceCosts) -> bool:
        """Whether copies take a small part of the time that the nodes of a block do.

        On a CPU, a step calls the functions that the block would call without a loop;
        an accelerator launches them. There, calls took 0.93, 0.65 and 0.54 times as
        long as without loops for 8, 32 and 64 blocks of 9 nodes with their gradients.
        """
        copied = 2 * 4 * self.stacked / costs.bandwidth
        each = costs.launch if costs.launches else costs.called
        return copied <= COPIED * self.nodes_compiled * self.nodes * each
