"""The messages between devices that rules foresee in a segment, with their bytes.

The places of arrays are followed from the inputs on. Where an op works on parts along
an axis separately, its result lies as its operands do. A sum over axes that are spread
is a sum on each device, then an all-reduce of the results. Arrays that devices need
whole are gathered. XLA decides about other ops on spread arrays: they may gather all
their inputs.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from graphc.control.call import CALL
from graphc.control.scan import SCAN, scan_inputs
from graphc.control.switch import SWITCH
from graphc.ir.graph.bodies import Body, has_bodies
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.types import is_float
from graphc.ops.effects.shardings import FREE
from graphc.transform.sharding.again import PRODUCTS, Unpinned, nodes_perhaps_on_parts
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.combining import EXTREMES, Combined, combination, is_cut
from graphc.transform.sharding.joining import (
    AGREED,
    joined_names,
    parted_axes,
    shared_axis,
)
from graphc.transform.sharding.layout import MeshLayout, whole_axes
from graphc.transform.sharding.moves import find_moves, is_crossed, is_summed_first
from graphc.transform.sharding.neighbours import Shift, bytes_sent, is_resized, shift_of
from graphc.transform.sharding.recomputed_values import (
    array_repeated_along,
    find_recomputed,
    masks_needed_twice,
    passes_parts,
    shared_values,
    viewed_array,
)
from graphc.transform.sharding.sent import (
    Gathering,
    Messages,
    Unforeseen,
    gathering_of,
    inputs_of_nodes,
    is_left_out,
    possible_gathering,
)
from graphc.transform.sharding.whole import Gathered, needed_whole, whole_operands

_NOT_PLAIN = "chunk", "per_chunk"  # params of scans that are not followed


class Follower:
    """Follows where arrays lie, through one segment after the other."""

    def __init__(self, layout: MeshLayout, is_inside: bool = False) -> None:
        self.layout = layout
        self._is_inside = is_inside  # whether a body is followed
        self._places: dict[Value, MeshAxes] = {}
        self._copies: set[tuple[Value, MeshAxes]] = set()  # that a segment has moved
        self._local: set[Value] = set()  # computed from nothing that is spread
        self._kept_in_place: set[Value] = set()  # computed from operands that moved
        self._loose: set[Value] = set()  # whole, but nothing in the text says so
        self._recomputed: dict[Value, Node] = {}  # by each device, and what asks for it
        # Values made of nothing that nodes take by parts (True), and whole (False).
        self._masks: dict[bool, set[Value]] = {True: set(), False: set()}
        self._used: set[Value] = set()  # by nodes, or as results of the segment
        self._parted: set[Value] = set()  # results given by parts, and what follows
        self.whole_masks: set[Value] = set()  # masks that a device makes whole
        self.pinned: set[Value] = set()  # computed where they lie, then moved for some

    def messages(
        self,
        nodes: Iterable[Node],
        inputs: Iterable[Value],
        outputs: Mapping[Value, MeshAxes | None],
    ) -> Messages:
        """The messages of a segment with these nodes, with its outputs placed as given.

        Where an output's place is left to JAX, devices have equally large parts of it,
        or all of it.
        """
        self.begin(inputs, nodes := [*nodes])
        self._used = {*outputs, *inputs_of_nodes(nodes)}
        parts = [v for v, axes in outputs.items() if axes is None or any(axes)]
        self._parted = set(filter(self.layout.is_spread, parts))
        messages = Messages()
        for node in nodes:
            self.follow(node, messages)
        parts = [v for v, axes in outputs.items() if any(self._spread_only(axes or ()))]
        messages.unforeseen += nodes_perhaps_on_parts(parts, self._loose)
        for value, axes in outputs.items():
            if axes is None and value not in self.layout.undecided:
                axes = self.layout.even_axes(value, self.place(value))
            if axes is not None:
                try:
                    axes = self._spread_only(axes)
                    self._count_move(value.node, value, axes, messages)
                except Unforeseen:
                    places = {value: self.place(value)}
                    messages.unforeseen.append(gathering_of(value.node, places))
        return messages

    def undecided_messages(
        self, node: Node, inputs: Sequence[Value], outputs: Iterable[Value]
    ) -> Messages:
        """The messages of a segment not followed: `node` may gather its inputs."""
        self.begin(inputs)
        gathering = gathering_of(node, {v: self.place(v) for v in inputs})
        self._places.update((v, self._decided_place(v)) for v in outputs)
        return Messages(unforeseen=[gathering] if gathering.axes else [])

    def begin(self, inputs: Iterable[Value], nodes: Iterable[Node] = ()) -> None:
        """Begin a segment."""
        self._copies.clear()
        self.pinned = {*inputs}
        self._local -= self.pinned  # by another segment
        self._loose -= self.pinned
        for value in self.pinned:
            if self.layout.of(value) is not None or value not in self._places:
                self._places[value] = self._decided_place(value)
        self._recomputed = self._find_recomputed(nodes)

    def _find_recomputed(self, nodes: Iterable[Node]) -> dict[Value, Node]:
        """The values that devices compute whole, and the nodes that need them so."""
        rehearsal, moves, demands = Follower(self.layout), {}, {}
        rehearsal._places.update(self._places)
        masks_taken: dict[bool, set[Value]] = {True: set(), False: set()}  # by parts
        for node in nodes:
            moves[node] = rehearsal.find_moves(node)
            if rehearsal._is_from_made(node) and is_crossed(node, rehearsal.place):
                self.whole_masks.update(map(viewed_array, node.inputs))
            needs = needed_whole(self.layout, node)
            places = demands[node] = moves[node] if needs is None else needs.inputs
            spread = [v for v in node.inputs if any(rehearsal.place(v))]
            for value in filter(rehearsal.is_made, spread):
                is_parted = any(places.get(value, rehearsal.place(value)))
                rehearsal._masks[is_parted].add(value)
                if rehearsal._is_by_axes(node):
                    masks_taken[is_parted].add(viewed_array(value))
            rehearsal.follow(node, Messages())
        self._masks = rehearsal._masks
        whole = find_recomputed(moves, rehearsal.place, rehearsal.is_made)
        for node in demands:
            if not whole.keys().isdisjoint(node.outputs):
                masks = filter(rehearsal.is_made, node.inputs)
                masks_taken[False].update(map(viewed_array, masks))
        both = masks_taken[True], masks_taken[False]
        self.whole_masks |= masks_needed_twice(*both, rehearsal.is_made)
        self.pinned |= {
            v
            for v in shared_values(demands, rehearsal.place, whole)
            if not rehearsal.is_made(v) and self.layout.of(v) is not None
        }
        return whole

    def _decided_place(self, value: Value) -> MeshAxes:
        """The place that the layout gives a value; whole where it leaves that open."""
        axes = self.layout.of(value)
        return whole_axes(value) if axes is None else self._spread_only(axes)

    def _spread_only(self, axes: MeshAxes) -> MeshAxes:
        """The axes without those along which there is one device."""
        mesh = self.layout.mesh
        alone = [a is None or mesh.size(a) == 1 for a in axes]
        return tuple([None if one else a for a, one in zip(axes, alone, strict=True)])

    def place(self, value: Value) -> MeshAxes:
        """The place of a value, which is whole where nothing else is known."""
        return self._places.get(value) or whole_axes(value)

    def follow(self, node: Node, messages: Messages) -> None:
        """Set where the results of a node lie, and count its messages."""
        before = {v: self.place(v) for v in node.inputs}
        copies = {*self._copies}
        if is_empty := is_left_out(node, before):
            messages = Messages()
        try:
            self._follow_by_rule(node, messages)
        except Unforeseen:
            messages.unforeseen.append(possible_gathering(self.layout, node, before))
            self._places.update((v, self._decided_place(v)) for v in node.outputs)
        self._copies = copies if is_empty else self._copies
        self._places.update(before)  # of an array that was gathered, too
        whole = self.whole_masks.intersection(node.outputs)
        self._places.update((v, whole_axes(v)) for v in whole)

    def _follow_by_rule(self, node: Node, messages: Messages) -> None:
        """Set where the results lie. Raises Unforeseen where no rule says that."""
        moves = self._lay_operands(node, messages)
        if node.primitive is OP.with_sharding:
            self._lay_by_hand(node, messages)
        elif (combines := combination(self.layout, node, self.place)) is not None:
            self._follow_parts(node, combines, messages)
            messages.add(combines.kind, combines.bytes_read(self._used.__contains__))
        elif (needs := needed_whole(self.layout, node)) is not None:
            self._follow_parts(node, needs, messages)
        elif not any(axis for v in node.inputs for axis in self.place(v)):
            self._follow_whole(node, messages, is_pinned=moves)
        elif node.primitive is CALL:
            self._follow_call(node, messages)
        elif node.primitive is SCAN:
            self._follow_scan(node, messages)
        elif node.primitive is SWITCH:
            self._follow_switch(node, messages)
        elif node.primitive.passes_on:
            pairs = zip(node.outputs, map(self.place, node.inputs), strict=False)
            self._places.update(pairs)
        elif has_bodies(node):
            raise Unforeseen
        else:
            self._follow_by_axes(node, messages)

    def is_made(self, value: Value) -> bool:
        """Whether a value is made of nothing: each device makes what it needs."""
        return value in self._local

    def masks_of_whole(self, node: Node) -> list[Value]:
        """Masks that a node takes for an array that each device has whole.

        A device makes all of these masks: XLA would make parts, and gather them.
        """
        places = {v: self.place(v) for v in node.inputs if self.layout.is_spread(v)}
        masks = [v for v in places if v in self._local and any(places[v])]
        arrays = [v for v in places if v not in self._local]
        is_whole = not any(any(places[v]) for v in arrays)
        return masks if is_whole and not self._kept_in_place.isdisjoint(arrays) else []

    def find_moves(self, node: Node) -> dict[Value, MeshAxes]:
        """The operands that must move for a node, and where they lie then."""
        if combination(self.layout, node, self.place) is not None:
            return {}
        operands = whole_operands(self.layout, node)
        places = {v: self._spread_only(axes) for v, axes in operands.items()}
        if not self._is_by_axes(node):
            return places
        if not self._recomputed.keys().isdisjoint(node.outputs):
            spread = [v for v in node.inputs if any(self.place(v))]
            return {v: whole_axes(v) for v in spread if v not in self._local}
        places |= {v: whole_axes(v) for v in node.inputs if v in self._recomputed}
        if self._is_from_made(node):
            return places
        place = lambda v: places.get(v) or self.place(v)  # noqa: E731
        return places | find_moves(self.layout, node, place, self.is_made)

    def _is_from_made(self, node: Node) -> bool:
        """Whether all spread inputs of a node are made of nothing."""
        return self._local.issuperset(v for v in node.inputs if any(self.place(v)))

    def _is_by_axes(self, node: Node) -> bool:
        """Whether devices do a node on separate parts along axes."""
        primitive = node.primitive
        other = primitive in (OP.with_sharding, CALL, SCAN) or primitive.passes_on
        is_decided = self.layout.undecided.isdisjoint(node.inputs)
        if other or has_bodies(node) or not is_decided:
            return False
        return needed_whole(self.layout, node) is None

    def _lay_operands(self, node: Node, messages: Messages) -> bool:
        """Lay operands as a node needs them, and count the messages; tell if any moves.

        Raises Unforeseen where XLA may gather operands though they are whole.
        """
        asking = [self._recomputed[v] for v in node.outputs if v in self._recomputed]
        moves = self.find_moves(node)
        is_summed = is_summed_first(node, self.place, self.is_made)
        unpinned = Unpinned(
            self.layout, self.place, self._local, self._loose, self._parted
        )
        is_free = not moves or node.primitive in PRODUCTS
        if is_summed or (is_free and unpinned.is_sent(node, self.masks_of_whole)):
            raise Unforeseen
        if asking and is_resized(self.layout, node, self._recomputed):
            raise Unforeseen  # XLA may compute parts, and send rows beside others
        if node.primitive is OP.scatter:
            is_crossed_mask = node.inputs[0] in self.whole_masks
            if is_crossed_mask or (moves and self._is_inside):
                raise Unforeseen  # XLA may add parts that nothing in the text lays
        for value, axes in moves.items():
            self._count_move((*asking, node)[0], value, axes, messages)
        if moves or not self._kept_in_place.isdisjoint(node.inputs):
            self._kept_in_place.update(node.outputs)
        if moves:  # the text lays the results
            self._parted.difference_update(node.outputs)
        elif passes_parts(node) and not self._parted.isdisjoint(node.inputs):
            self._parted.update(node.outputs)
        return bool(moves or asking)

    def _follow_whole(self, node: Node, messages: Messages, is_pinned: bool) -> None:
        """Set where the results lie of a node whose inputs are all whole.

        Each device makes values made of nothing, such as masks, where it uses them.
        """
        is_made = not any(map(self.layout.is_spread, node.inputs))
        if not is_made and is_cut(node) and not is_pinned:
            raise Unforeseen  # XLA may spread what it cuts
        place = self._decided_place if is_made else whole_axes
        self._places.update((v, place(v)) for v in node.outputs)
        if is_made:
            self._local.update(node.outputs)
            self._count_agreement(node, messages)
        elif not is_pinned:
            self._loose.update(node.outputs)

    def _follow_parts(self, node: Node, way: Combined | Gathered, to: Messages) -> None:
        """Set where the results of a node lie that devices do on their parts."""
        if has_bodies(node):
            raise Unforeseen
        for value, axes in way.inputs.items():
            self._count_move(node, value, self._spread_only(axes), to)
        self._places.update((v, self._spread_only(a)) for v, a in way.outputs.items())
        self._parted.difference_update(node.outputs)

    def _follow_call(self, node: Node, messages: Messages) -> None:
        (call,) = node.primitive.body_calls(node)
        places, inner = self._follow_body(call.body, [*map(self.place, node.inputs)])
        self._places.update(zip(node.outputs, places, strict=True))
        messages.add_body(inner, call.sizes)

    def _follow_switch(self, node: Node, messages: Messages) -> None:
        """Follow each branch: the program has the messages of all of them."""
        before = [*map(self.place, node.inputs[1:])]
        calls = node.primitive.body_calls(node)
        branches = [(call, *self._follow_body(call.body, before)) for call in calls]
        _, places, _ = branches[0]
        if any(others != places for _, others, _ in branches):
            raise Unforeseen
        self._places.update(zip(node.outputs, places, strict=True))
        for call, _, inner in branches:
            messages.add_body(inner, call.sizes)

    def _follow_scan(self, node: Node, messages: Messages) -> None:
        """Follow one step, which stands for all: the program has its messages once.

        A carry that is spread before the loop stays so; where a step leaves it whole,
        devices keep their parts.
        """
        params, (call,) = node.params, node.primitive.body_calls(node)
        parts = scan_inputs(node.inputs, params)
        rows = [self.place(v) for v in parts.rows]
        carries = [self.place(v) for v in parts.first]
        plain = not any(params[name] for name in _NOT_PLAIN)
        if not plain or any(axes[0] for axes in rows):
            raise Unforeseen
        steady = [*(axes[1:] for axes in rows), *map(self.place, parts.captures)]
        places, inner = self._follow_body(call.body, [*carries, *steady])
        if places[: len(carries)] != carries:
            steps = zip(carries, places, strict=False)
            carries = [old if any(old) else new for old, new in steps]
            places, inner = self._follow_body(call.body, [*carries, *steady])
        steps = zip(carries, places, strict=False)
        if any(old != new for old, new in steps if any(new)):
            raise Unforeseen
        split = len(carries) + params["stops"]
        stacked = [(None, *axes) for axes in places[split:]]
        counts = places[len(carries) : split]
        pairs = zip(node.outputs, [*carries, *counts, *stacked], strict=True)
        self._places.update(pairs)
        if whole_operands(self.layout, node):
            self._places.update((v, self._decided_place(v)) for v in node.outputs)
        messages.add_body(inner, call.sizes)

    def _follow_body(
        self, body: Body, places: Sequence[MeshAxes]
    ) -> tuple[list[MeshAxes], Messages]:
        """The places of the outputs of a body, and its messages."""
        if len(places) != len(body.inputs):
            raise Unforeseen
        follower, messages = Follower(self.layout, is_inside=True), Messages()
        follower._places.update(zip(body.inputs, places, strict=True))
        follower._used = {*body.outputs, *inputs_of_nodes(body.nodes)}
        for node in body.nodes:
            follower.follow(node, messages)
        return [follower.place(v) for v in body.outputs], messages

    def _lay_by_hand(self, node: Node, messages: Messages) -> None:
        (x,), (result,) = node.inputs, node.outputs
        pairs = zip(node.params["axes"], self.place(x), strict=True)
        axes = tuple([old if a == FREE else a.content or None for a, old in pairs])
        self._places[result] = self.place(x)
        self._count_move(node, result, self._spread_only(axes), messages)

    def _count_move(
        self, node: Node, value: Value, axes: MeshAxes, messages: Messages
    ) -> None:
        """Count the messages that lay a value along `axes` for a node.

        To take a part of a whole value needs no message; a spread value is gathered, or
        laid along another axis, once in a segment. Raises Unforeseen for both at once.
        """
        before = self.place(value)
        changes = [(a, b) for a, b in zip(before, axes, strict=True) if a != b]
        axes_left = [a for a, _ in changes if a is not None]
        axes_taken = [b for _, b in changes if b is not None]
        self._places[value] = axes
        if not axes_left or (value, axes) in self._copies or value in self._local:
            return
        self._copies.add((value, axes))
        size = self.layout.moved_bytes(value, before, axes)
        if not axes_taken:
            messages.add("all-gather", self.layout.gathered_bytes(value, before, axes))
            messages.gathers.append(Gathering(node, size, frozenset(axes_left)))
        elif axes_left == axes_taken and len(axes_left) == 1:
            repeated = array_repeated_along(value, axes.index(axes_left[0]))
            if repeated is None:
                messages.add("all-to-all", size)
            else:  # each device needs all that it repeats along that axis
                self._count_move(node, repeated, whole_axes(repeated), messages)
        else:
            raise Unforeseen

    def _follow_by_axes(self, node: Node, messages: Messages) -> None:
        """Set where the results of a node lie, axis by axis.

        No rule is needed for arrays that each device has whole, or makes.
        """
        if node.primitive is OP.hyp2f1:
            raise Unforeseen  # the host computes it
        spread = [v for v in node.inputs if self._may_be_parted(v)]
        for result in node.outputs:
            try:
                self._place_by_axes(node, result, messages)
            except Unforeseen:
                if not self._is_from_made(node):
                    raise
                self._places[result] = whole_axes(result)
            if self._local.issuperset(spread):
                self._local.add(result)
        self._count_agreement(node, messages)

    def _count_agreement(self, node: Node, messages: Messages) -> None:
        """Count the messages that tell all devices whether a node's loops go on.

        A device makes a value that nodes take whole by itself, without messages. Raises
        Unforeseen where other nodes take parts of that value.
        """
        agreed = AGREED.find(node.primitive)
        if agreed is None or not any(any(self.place(v)) for v in node.outputs):
            return
        parted, whole = self._masks[True], self._masks[False]
        if self._local.isdisjoint(node.outputs) or not whole:
            messages.add("all-reduce", agreed)
        elif not (whole - parted).issuperset(node.outputs):
            raise Unforeseen

    def _may_be_parted(self, value: Value) -> bool:
        """Whether devices may have parts of a value; sizes of bodies do not tell."""
        return self.layout.is_spread(value) or any(self.place(value))

    def _place_by_axes(self, node: Node, result: Value, messages: Messages) -> None:
        if result in self._recomputed:
            self._places[result] = whole_axes(result)
            return
        parted_axes_of: list[set[int]] = [set() for _ in node.inputs]
        axes: list[str | None] = []
        shifts: dict[int, Shift] = {}
        for axis in range(result.type.rank):
            of_operands = parted_axes(node, axis, result) or []
            shift = None if of_operands else shift_of(self.layout, node, axis)
            if shift is not None:
                of_operands, shifts[axis] = shift.axes, shift
            axes.append(shared_axis(node, of_operands, self.place, self.is_made))
            for places, operand_axis in zip(parted_axes_of, of_operands, strict=False):
                places.update([] if operand_axis is None else [operand_axis])
        joined = joined_names(node, parted_axes_of, self.place)
        names = [*filter(None, axes), *joined]
        if len(set(names)) < len(names):
            raise Unforeseen  # one axis of the mesh for two of the result
        self._places[result] = tuple(axes)
        for axis, shift in shifts.items():
            size = bytes_sent(self.layout, node, axis, shift, self.place)
            if size is not None:
                messages.add("collective-permute", size)
        if joined:
            self._join(node, result, len(joined), messages)

    def _join(self, node: Node, result: Value, times: int, messages: Messages) -> None:
        """Count the messages that join results of parts, one mesh axis at a time.

        Where inputs are made of nothing, XLA may make all of the result instead.
        """
        if self._is_from_made(node):
            messages.unforeseen.append(Gathering(node, 0, frozenset()))
            return
        places = [self.place(v) for v in node.inputs if self._may_be_parted(v)]
        if node.primitive in PRODUCTS and not all(map(any, places)):
            raise Unforeseen  # XLA sums parts, or gathers what meets a whole array
        self._kept_in_place.discard(result)  # XLA may go on with parts of the sum
        axes = self.place(result)
        size = self.layout.local_bytes(result, axes)
        if node.primitive in EXTREMES and is_float(result.dtype):
            size += prod(self.layout.local_shape(result, axes))  # NaN or not
        messages.add("all-reduce", times * size)
