"""Work on small arrays recorded as CUDA graphs, kept by shape.

A step of a fit is some three hundred kernels of a few microseconds each, and to launch one takes the host ten: it is the host
that a small fit waits for. A graph launches all of them at once. The first call with arrays of some shapes runs as it is, the
second records what it does, and from then on the graph is played: inputs are copied to where it reads, outputs from where it
writes. Large arrays are not worth it: there the host is ahead of the device.

Work that is recorded must not read from the device or depend on what lies there, which is why it takes numbers that change from
call to call as arrays; other arguments are part of what a graph is kept by. An array that is given to it must not be changed in
place, by the work or afterwards: it is not copied again where it is still in its seat.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import repeat
from threading import Lock
from typing import Any, cast
from weakref import ref

import torch

from slalom.core.fitting.backend import P, R

_LARGEST = 2**26  # bytes of the inputs of one graph
_KEPT = 2**30  # bytes of all seats of a device and of what graphs make
_NUMBER = 256  # of graphs, and of shapes that were seen once


class Seat:
    """Where graphs read an array, and the last array that was copied there."""

    __slots__ = ("array", "guest")

    def __init__(self, like: torch.Tensor) -> None:
        """Make room for arrays of one shape."""
        self.array = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        self.guest: Callable[[], torch.Tensor | None] = lambda: None


class Room:
    """Where the graphs of a device are recorded and played, one at a time: so they can share memory.

    What they make comes from one pool. What they read lies in seats: the second array of some shape that a graph reads lies
    where that of every other graph lies, and stays there until another is read.
    """

    def __init__(self, device: torch.device) -> None:
        """Make a stream to record on, and note the one that is current."""
        self.seats: dict[Any, Seat] = {}
        self.pool, self.side = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.device, self.last = device, torch.cuda.current_stream(device)

    def enter(self) -> torch.cuda.Stream:
        """Return the current stream, which waits for what another has still to play."""
        stream = torch.cuda.current_stream(self.device)
        if stream != self.last:
            stream.wait_stream(self.last)
            self.last = stream
        return stream

    @property
    def size(self) -> int:
        """The bytes of all seats."""
        return sum(seat.array.nbytes for seat in self.seats.values())

    def seated(self, given: list[torch.Tensor]) -> list[Seat]:
        """Return the seats of arrays, each its own; nothing is copied yet."""
        number, found = Counter[Any](), []
        for leaf in given:
            form = leaf.shape, leaf.dtype
            number[form] += 1
            name = *form, number[form]
            if name not in self.seats:
                self.seats[name] = Seat(leaf)
            found.append(self.seats[name])
        return found

    def record(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Callable[[], None], Any]:
        """Return how to do the work once more with what then lies in its arguments, and where its outputs will lie."""
        stream, graph = self.enter(), torch.cuda.CUDAGraph()
        self.side.wait_stream(stream)
        with torch.cuda.stream(self.side):
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                outputs = work(*arguments)
            finally:
                graph.capture_end()
        stream.wait_stream(self.side)
        return graph.replay, outputs


class Tape:
    """One piece of work for arrays of given shapes."""

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...], given: list[torch.Tensor], room: Room) -> None:
        """Record the work on arguments with the given arrays in them; nothing is computed yet.

        What it makes is put end to end, one array a type, so that one copy takes it all.
        """
        self.seats = room.seated(given)
        inputs = [seat.array for seat in self.seats]
        passed = {id(leaf): i for i, leaf in enumerate(inputs)}

        def packed(*arguments: Any) -> tuple[Any, ...]:
            outputs, found = work(*arguments), list[torch.Tensor]()
            taken(outputs, found)
            made = dict[torch.dtype, list[torch.Tensor]]()
            for leaf in found:
                if id(leaf) not in passed:
                    made.setdefault(leaf.dtype, []).append(leaf.reshape(-1))
            return outputs, *(torch.cat(parts) for parts in made.values())

        self.replay, (outputs, *self.made) = room.record(packed, filled(arguments, iter(inputs)))
        found: list[torch.Tensor] = []
        taken(outputs, found)
        self.outputs = filled(outputs, repeat(torch.empty(0)))  # the tree; its arrays may go
        self.sources = [passed.get(id(leaf)) for leaf in found]  # the input that an output is, or None
        fresh = [leaf for leaf, source in zip(found, self.sources, strict=True) if source is None]
        kinds = [array.dtype for array in self.made]
        self.forms = [(kinds.index(leaf.dtype), leaf.shape) for leaf in fresh]
        self.sizes = [[leaf.numel() for leaf in fresh if leaf.dtype == kind] for kind in kinds]
        self.size = sum(array.nbytes for array in self.made)

    def play(self, given: list[torch.Tensor]) -> Any:
        """Return what the work gives for other arrays; an output that is an input is the caller's own."""
        for seat, leaf in zip(self.seats, given, strict=True):
            if seat.guest() is not leaf:
                seat.array.copy_(leaf)
                seat.guest = ref(leaf)
        self.replay()
        parts = [iter(array.clone().split(sizes)) for array, sizes in zip(self.made, self.sizes, strict=True)]
        fresh = iter([next(parts[kind]).view(shape) for kind, shape in self.forms])
        return filled(self.outputs, (next(fresh) if i is None else given[i] for i in self.sources))


class _Shelf:
    """The tapes of this process, those used last at the end."""

    def __init__(self) -> None:
        self.tapes: OrderedDict[Any, Tape | None] = OrderedDict()
        self.rooms: dict[torch.device, Room] = {}
        self.lock, self.works = Lock(), True

    def run(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run, record or play."""
        if not self.works or not self.lock.acquire(blocking=False):
            return work(*arguments)  # one thread at a time has the tapes
        try:
            given: list[torch.Tensor] = []
            key = work, taken(arguments, given), given[0].device
            if key not in self.tapes:
                if sum(leaf.nbytes for leaf in given) < _LARGEST:
                    self.tapes[key] = None
                return work(*arguments)
            tape = self.tapes[key] or self.record(key, work, arguments, given)
            if tape is None:
                return work(*arguments)
            self.tapes.move_to_end(key)
            self.rooms[given[0].device].enter()
            return tape.play(given)
        finally:
            self.lock.release()

    def record(self, key: Any, work: Callable[..., Any], arguments: tuple[Any, ...], given: list[torch.Tensor]) -> Tape | None:
        """Make a tape and throw old ones away; without memory there is none, and where it cannot be made no other is tried."""
        device = given[0].device
        try:
            if device not in self.rooms:
                self.rooms[device] = Room(device)
            tape = Tape(work, arguments, given, self.rooms[device])
        except torch.cuda.OutOfMemoryError:
            self.clear()
            return None
        except RuntimeError:
            self.clear()
            self.works = False
            return None
        if self.rooms[device].size + sum(kept.size for kept in self.tapes.values() if kept) > _KEPT:  # begin anew
            self.clear()
        self.tapes[key] = tape
        self.tapes.move_to_end(key)
        while len(self.tapes) > _NUMBER:
            self.tapes.popitem(last=False)
        return tape

    def clear(self) -> None:
        """Throw away all tapes and what they read."""
        self.tapes.clear()
        for room in self.rooms.values():
            room.seats.clear()


_SHELF = _Shelf()


def recorded(work: Callable[P, R]) -> Callable[P, R]:
    """Return a function that plays the work from the third call with the same shapes on."""

    def run(*arguments: Any) -> Any:
        return _SHELF.run(work, arguments)

    return cast(Callable[P, R], run)


def taken(tree: Any, arrays: list[torch.Tensor]) -> Any:
    """Take the arrays out of nested tuples and dataclasses; return what two trees must have in common for one tape.

    That is the shapes and types, and all that is no array.
    """
    kind: Any = type(tree)
    if kind is torch.Tensor:
        arrays.append(tree)
        return tree.shape, tree.dtype
    names = _names(kind)
    if names is None:
        return tree
    branches = tree if issubclass(kind, tuple) else [getattr(tree, name) for name in names]
    return kind, *[taken(branch, arrays) for branch in branches]


def filled(tree: Any, arrays: Iterator[torch.Tensor]) -> Any:
    """Return the same tree with other arrays in it."""
    kind: Any = type(tree)
    if kind is torch.Tensor:
        return next(arrays)
    names = _names(kind)
    if names is None:
        return tree
    if issubclass(kind, tuple):
        branches = [filled(branch, arrays) for branch in tree]
        return kind(*branches) if names else tuple(branches)
    return replace(tree, **{name: filled(getattr(tree, name), arrays) for name in names})


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass or named tuple; none for a plain tuple, None for other types."""
    if issubclass(kind, tuple):
        return tuple(getattr(kind, "_fields", ()))
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None
