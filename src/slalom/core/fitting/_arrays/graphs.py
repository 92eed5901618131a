"""Functions of small arrays captured as CUDA graphs and cached by shape.

A step of a fit launches about three hundred kernels of a few microseconds each, and a launch takes the host about ten: small
fits are bound by the host. A graph launches all kernels at once. The first call with arguments of given shapes runs the
function, the second captures it, later calls replay the graph: inputs are copied into its buffers, outputs out of them. Large
arrays are not captured: there the kernels take longer than their launches. A thread that captures a function has run it before:
cuBLAS and cuSOLVER make a handle for each thread, and cannot do so during a capture.

A captured function must not read from the device or branch on values that are there, so numbers that change from call to call
are passed as arrays; all other arguments are part of the cache key. Arrays that are passed in must not be changed in place, by
the function or later: an array that is still in its buffer is not copied again.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import repeat
from threading import Lock, local
from typing import Any, ParamSpec, TypeVar, cast
from weakref import ref

import torch

_LOG = logging.getLogger("slalom")
_MAX_INPUT_BYTES = 2**26  # of one graph
_MAX_KEPT_BYTES = 2**30  # input buffers and outputs of all graphs of a device
_MAX_GRAPHS = 256  # includes shapes that were seen once and are not captured yet

P = ParamSpec("P")
R = TypeVar("R")


class InputBuffer:
    """Memory that graphs read one input from, and a weak reference to the array last copied there."""

    __slots__ = ("array", "source")

    def __init__(self, like: torch.Tensor) -> None:
        self.array = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        self.source: Callable[[], torch.Tensor | None] = lambda: None


class GraphPool:
    """The stream and the memory that all graphs of a device share; they run one at a time.

    Intermediate results and outputs come from one memory pool. Input buffers are shared too: the k-th input of a given shape
    has the same buffer in every graph, so an array that several graphs read in turn is copied once.
    """

    def __init__(self, device: torch.device) -> None:
        self.buffers: dict[Any, InputBuffer] = {}
        self.memory, self.side = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.device, self.last = device, torch.cuda.current_stream(device)

    def enter(self) -> torch.cuda.Stream:
        """Return the current stream, after making it wait for the stream of the last replay."""
        stream = torch.cuda.current_stream(self.device)
        if stream != self.last:
            stream.wait_stream(self.last)
            self.last = stream
        return stream

    @property
    def size(self) -> int:
        """Bytes of all input buffers."""
        return sum(buffer.array.nbytes for buffer in self.buffers.values())

    def buffers_for(self, inputs: list[torch.Tensor]) -> list[InputBuffer]:
        """Return one buffer per input, none of them twice; nothing is copied yet."""
        number, buffers = Counter[Any](), []
        for leaf in inputs:
            form = leaf.shape, leaf.dtype
            number[form] += 1
            key = *form, number[form]
            if key not in self.buffers:
                self.buffers[key] = InputBuffer(leaf)
            buffers.append(self.buffers[key])
        return buffers

    def capture(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Callable[[], None], Any]:
        """Capture a call; return the replay function and the outputs, whose memory each replay overwrites."""
        stream, graph = self.enter(), torch.cuda.CUDAGraph()
        self.side.wait_stream(stream)
        with torch.cuda.stream(self.side):
            graph.capture_begin(pool=self.memory, capture_error_mode="thread_local")
            try:
                outputs = function(*arguments)
            finally:
                graph.capture_end()
        stream.wait_stream(self.side)
        return graph.replay, outputs


class CapturedGraph:
    """One function, captured for arguments of given shapes."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[torch.Tensor], pool: GraphPool
    ) -> None:
        """Capture the function; nothing is computed yet.

        New outputs are concatenated, one array per data type, so that a single copy moves all of them.
        """
        self.buffers = pool.buffers_for(inputs)
        arrays = [buffer.array for buffer in self.buffers]
        position = {id(leaf): i for i, leaf in enumerate(arrays)}

        def packed(*arguments: Any) -> tuple[Any, ...]:
            outputs, leaves = function(*arguments), list[torch.Tensor]()
            flatten(outputs, leaves)
            by_type = dict[torch.dtype, list[torch.Tensor]]()
            for leaf in leaves:
                if id(leaf) not in position:
                    by_type.setdefault(leaf.dtype, []).append(leaf.reshape(-1))
            return outputs, *(torch.cat(parts) for parts in by_type.values())

        self.replay, (outputs, *self.packed) = pool.capture(packed, unflatten(arguments, iter(arrays)))
        leaves: list[torch.Tensor] = []
        flatten(outputs, leaves)
        self.outputs = unflatten(outputs, repeat(torch.empty(0)))  # the tree alone, so that its arrays can be freed
        self.passed_through = [position.get(id(leaf)) for leaf in leaves]  # index of the input that an output is, or None
        new = [leaf for leaf, index in zip(leaves, self.passed_through, strict=True) if index is None]
        types = [array.dtype for array in self.packed]
        self.forms = [(types.index(leaf.dtype), leaf.shape) for leaf in new]
        self.sizes = [[leaf.numel() for leaf in new if leaf.dtype == kind] for kind in types]
        self.size = sum(array.nbytes for array in self.packed)

    def run(self, inputs: list[torch.Tensor]) -> Any:
        """Replay with other inputs; an output that is an input is returned as the caller's own array."""
        for buffer, leaf in zip(self.buffers, inputs, strict=True):
            if buffer.source() is not leaf:
                buffer.array.copy_(leaf)
                buffer.source = ref(leaf)
        self.replay()
        parts = [iter(array.clone().split(sizes)) for array, sizes in zip(self.packed, self.sizes, strict=True)]
        new = iter([next(parts[kind]).view(shape) for kind, shape in self.forms])
        return unflatten(self.outputs, (next(new) if i is None else inputs[i] for i in self.passed_through))


class _Here(local):
    """The functions that this thread has run."""

    def __init__(self) -> None:
        self.functions: set[Callable[..., Any]] = set()


class GraphCache:
    """The graphs of this process, least recently used first; None marks shapes that were seen once."""

    def __init__(self) -> None:
        self.here = _Here()
        self.graphs: OrderedDict[Any, CapturedGraph | None] = OrderedDict()
        self.pools: dict[torch.device, GraphPool] = {}
        self.lock, self.works, self.warned = Lock(), True, False

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call the function, or capture it, or replay its graph."""
        if not self.works or not self.lock.acquire(blocking=False):
            return function(*arguments)  # one thread at a time uses the graphs
        try:
            inputs: list[torch.Tensor] = []
            key = function, flatten(arguments, inputs), inputs[0].device
            graph = self.graphs.get(key)
            if graph is None and key in self.graphs and function in self.here.functions:
                graph = self.capture(key, function, arguments, inputs)
            elif key not in self.graphs and sum(leaf.nbytes for leaf in inputs) < _MAX_INPUT_BYTES:
                self.graphs[key] = None
            if graph is None:
                self.here.functions.add(function)
                return function(*arguments)
            self.graphs.move_to_end(key)
            self.pools[inputs[0].device].enter()
            return graph.run(inputs)
        finally:
            self.lock.release()

    def capture(
        self, key: Any, function: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[torch.Tensor]
    ) -> CapturedGraph | None:
        """Capture a graph and drop old ones; None where memory runs out or the device cannot capture."""
        device = inputs[0].device
        try:
            if device not in self.pools:
                self.pools[device] = GraphPool(device)
            pool = self.pools[device]
            graph = CapturedGraph(function, arguments, inputs, pool)
        except torch.cuda.OutOfMemoryError:
            self.clear()
            if not self.warned:
                _LOG.warning(
                    "Too little memory on %s for another CUDA graph; fits release theirs and run step by step.", device
                )
            self.warned = True
            return None
        except RuntimeError as error:
            self.clear()
            self.works = False
            reason = str(error).partition("\n")[0]
            _LOG.warning("CUDA graphs do not work on %s (%s); fits run without them, more slowly.", device, reason)
            return None
        if pool.size + sum(kept.size for kept in self.graphs.values() if kept) > _MAX_KEPT_BYTES:
            self.clear()
            self.pools[device] = pool  # still in use by the new graph
        self.graphs[key] = graph
        self.graphs.move_to_end(key)
        while len(self.graphs) > _MAX_GRAPHS:
            self.graphs.popitem(last=False)
        return graph

    def clear(self) -> None:
        """Drop all graphs, input buffers and pools; the caller holds the lock.

        Torch does not capture into a memory pool whose graphs are all gone, so the next graph gets a new one.
        """
        self.graphs.clear()
        for pool in self.pools.values():
            pool.buffers.clear()
        self.pools.clear()


_CACHE = GraphCache()


def captured(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that replays a CUDA graph from the third call with the same shapes on."""

    def run(*arguments: Any) -> Any:
        return _CACHE.run(function, arguments)

    return cast(Callable[P, R], run)


def release() -> None:
    """Drop all graphs and their memory, after a running replay."""
    with _CACHE.lock:
        _CACHE.clear()


def flatten(tree: Any, arrays: list[torch.Tensor]) -> Any:
    """Append the arrays of nested tuples and dataclasses to a list; return the part of the cache key that the tree makes up.

    That is the shapes and types of the arrays, and every leaf that is no array.
    """
    kind: Any = type(tree)
    if kind is torch.Tensor:
        arrays.append(tree)
        return tree.shape, tree.dtype
    names = _field_names(kind)
    if names is None:
        return tree
    branches = tree if issubclass(kind, tuple) else [getattr(tree, name) for name in names]
    return kind, *[flatten(branch, arrays) for branch in branches]


def unflatten(tree: Any, arrays: Iterator[torch.Tensor]) -> Any:
    """Return the same tree with other arrays in it."""
    kind: Any = type(tree)
    if kind is torch.Tensor:
        return next(arrays)
    names = _field_names(kind)
    if names is None:
        return tree
    if issubclass(kind, tuple):
        branches = [unflatten(branch, arrays) for branch in tree]
        return kind(*branches) if names else tuple(branches)
    return replace(tree, **{name: unflatten(getattr(tree, name), arrays) for name in names})


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    """Return the field names of a dataclass or named tuple; () for a plain tuple, None for other types."""
    if issubclass(kind, tuple):
        return tuple(getattr(kind, "_fields", ()))
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None
