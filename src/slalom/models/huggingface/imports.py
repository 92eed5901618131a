"""Imports of transformers without what a classifier does not use: the compiler, several devices, object detection.

`transformers.modeling_utils` imports `torch._dynamo`, `torch.distributed.tensor`, sympy and `scipy.optimize` for any model: a
third of the time of its import. `lean` runs an import with empty modules in their place. What transformers takes from them by
`from ... import` is a stand-in, which imports the real object when it is used. When the real module is imported, by whomever,
stand-ins are replaced by the real objects. Afterwards no empty module is left: other imports find nothing but the usual.

Only the names in `_DEFERRED`, taken by the importers there, are deferred; anything else is imported as usual, as is all of it
with another version that takes other names. transformers also reads the files of all its models twice to list their classes;
`lean` shares the first list. docs/decisions/0017-bundled-classifier.md has the figures.
"""

import copy
import functools
import gc
import importlib
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")
_Settle = Callable[[types.ModuleType], None]

_TENSOR_PARALLEL = (
    "_get_parameter_plan _validate_parallel_plan_styles apply_tensor_parallelism gather_state_dict_for_save"
    " get_kv_heads_per_rank replace_layer_number_by_wildcard resolve_parallel_plans verify_tp_plan"
)
_LISTS = "transformers.utils.import_utils"  # lists the classes of a folder of models
_SCAN = "create_import_structure_from_path"
_DEFERRED = {  # module: who may take which of its names without importing it
    "scipy.optimize": (("transformers.",), "linear_sum_assignment"),
    "torch._dynamo": (
        ("transformers.", "torch.compiler", "torch._compile"),
        "allow_in_graph assume_constant_result disable",
    ),
    "torch._dynamo._trace_wrapped_higher_order_op": (("transformers.",), "TransformGetItemToIndex"),
    "torch.distributed._composable.fsdp": (("transformers.",), "fully_shard"),
    "torch.distributed._functional_collectives": (("transformers.",), "all_to_all_single_autograd wait_tensor"),
    "torch.distributed.checkpoint": (("transformers.",), ""),
    "torch.distributed.checkpoint.hf_storage": (("transformers.",), "HuggingFaceStorageReader HuggingFaceStorageWriter"),
    "torch.distributed.fsdp": (("transformers.",), "CPUOffloadPolicy MixedPrecisionPolicy"),
    "torch.distributed.tensor": (("transformers.",), "DTensor Partial Replicate Shard distribute_tensor"),
    "torch.distributed.tensor._utils": (("transformers.",), "compute_local_shape_and_global_offset"),
    "torch.distributed.tensor.placement_types": (("transformers.",), "Shard _StridedShard"),
    "transformers.distributed.expert_parallel": (("transformers.",), "apply_expert_parallelism"),
    "transformers.distributed.tensor_parallel": (("transformers.",), _TENSOR_PARALLEL),
}


def lean(work: Callable[[], _T]) -> _T:
    """Import and load a model without the parts of torch and transformers that it does not use."""
    try:
        with _no_collection(), _DEFERRAL.opened():
            return work()
    except (OSError, ValueError):  # what broken or missing files raise
        raise
    except Exception:
        if not _DEFERRAL.pending:
            raise
    _DEFERRAL.finish()
    return work()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: an import makes a million objects, and nearly no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _StandIn:
    """An object of a module that is not imported yet: a class or a function."""

    def __init__(self, module: str, name: str) -> None:
        self.__dict__.update(_module=module, _attribute=name)

    def _real(self) -> Any:
        """Import the module; return the object."""
        return getattr(importlib.import_module(self._module), self._attribute)

    def _real_if_imported(self) -> Any:
        """Return the object; as long as its module is not imported, a class that has no instances."""
        module = sys.modules.get(self._module)
        return _Nothing if module is None or type(module) is _Empty else getattr(module, self._attribute, _Nothing)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._real()(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def __instancecheck__(self, item: object) -> bool:
        return isinstance(item, self._real_if_imported())

    def __subclasscheck__(self, item: type) -> bool:
        return issubclass(item, self._real_if_imported())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._real(),)

    def __or__(self, other: Any) -> Any:
        return self._real() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._real()


class _Nothing:
    """A class without instances."""


class _Empty(types.ModuleType):
    """A module that is not imported yet."""

    _deferral: "_Deferral"

    def __getattr__(self, name: str) -> Any:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") == "importlib._bootstrap":
            frame = frame.f_back
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return self._deferral.give(self, name, frame.f_globals)


@dataclass(frozen=True, eq=False)
class _EmptyLoader(Loader):
    """Makes empty modules."""

    deferral: "_Deferral"

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = _Empty(spec.name)
        module._deferral = self.deferral
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the module empty."""


@dataclass(eq=False)
class _Deferral(MetaPathFinder):
    """Finds empty modules while it is open; later waits for the real ones.

    Attributes:
        pending: What is to be done with a real module once it is imported.
        defers: Whether further modules are replaced by empty ones.
    """

    pending: dict[str, list[_Settle]] = field(default_factory=dict)
    defers: bool = False
    _given: dict[tuple[str, str, str], _StandIn] = field(default_factory=dict)
    _users: int = 0
    _undo: list[Callable[[], None]] = field(default_factory=list)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Put empty modules in place of those in `_DEFERRED` that are not imported yet; take them away in the end."""
        self._users += 1
        self.defers = True
        if _LISTS not in sys.modules:
            self.pending[_LISTS] = [self._share]
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._close()

    def _close(self) -> None:
        """Leave nothing but the stand-ins, and wait for their modules."""
        self.defers = False
        self.pending.pop(_LISTS, None)
        while self._undo:
            self._undo.pop()()
        for name in _DEFERRED:
            self._remove(name)
        self._leave()

    def _share(self, module: types.ModuleType) -> None:
        """Let `transformers` and `transformers.models` share one list of all models."""
        scan = getattr(module, _SCAN, None)
        if scan is not None:
            setattr(module, _SCAN, _shared(scan))
            self._undo.append(lambda: setattr(module, _SCAN, scan))

    def finish(self) -> None:
        """Import all that was deferred."""
        for name in list(self.pending):
            importlib.import_module(name)

    def find_spec(self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        """Find an empty module, or a real one that others wait for."""
        parent = sys.modules.get(name.rpartition(".")[0])
        if type(parent) is _Empty and not (self.defers and name in _DEFERRED):
            path = self._import(parent).__path__
        elif name not in _DEFERRED and name not in self.pending:
            return None
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if type(finder) is not _Deferral)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None:
            return None
        if self.defers and name in _DEFERRED:
            empty = ModuleSpec(name, _EmptyLoader(self), origin=spec.origin, is_package=True)
            empty.submodule_search_locations = spec.submodule_search_locations or []
            return empty
        if name in self.pending:
            self._watch(spec)
        return spec

    def give(self, module: _Empty, name: str, taker: dict[str, Any]) -> Any:
        """Return an attribute of an empty module: a stand-in, or what the real module has, which is then imported."""
        importers, names = _DEFERRED[module.__name__]
        by_name = str(taker.get("__name__"))
        if not self.defers or name not in names.split() or not by_name.startswith(importers):
            real = self._import(module)
            _replace(taker, module, real)
            return getattr(real, name)
        waiting = self.pending.setdefault(module.__name__, [])
        if module.__name__ == "torch._dynamo":
            return functools.partial(_mark, waiting, name)
        key = (module.__name__, name, by_name)
        if key not in self._given:
            stand_in = self._given[key] = _StandIn(module.__name__, name)
            waiting.append(lambda real: _replace(taker, stand_in, getattr(real, name)))
        return self._given[key]

    def _import(self, module: _Empty) -> types.ModuleType:
        """Import the real module in place of an empty one. Nothing is deferred from now on."""
        self.defers = False
        self._remove(module.__name__)
        return importlib.import_module(module.__name__)

    def _remove(self, name: str) -> None:
        """Take an empty module away."""
        module = sys.modules.get(name)
        if type(module) is _Empty:
            del sys.modules[name]
            package, _, child = name.rpartition(".")
            parent = sys.modules.get(package)
            if parent is not None and parent.__dict__.get(child) is module:
                delattr(parent, child)

    def _watch(self, spec: ModuleSpec) -> None:
        """Settle what waits for a module once it is executed."""
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            if module.__name__ != spec.name:  # a loader of several modules
                return
            del loader.exec_module
            for settle in self.pending.pop(spec.name, ()):
                settle(module)
            self._leave()

        loader.exec_module = exec_module

    def _leave(self) -> None:
        """Stop looking at imports where nothing waits for one."""
        if not self.pending and not self.defers and self in sys.meta_path:
            sys.meta_path.remove(self)


_DEFERRAL = _Deferral()


def _shared(scan: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a scan of folders that reads the folder of all models once, by whichever path it is named."""
    known: dict[Path, Any] = {}

    @functools.wraps(scan)
    def once(path: Any) -> Any:
        folder = Path(path).parent if Path(path).suffix == ".py" else Path(path)
        if folder.name != "models":
            return scan(path)
        if folder not in known:
            known[folder] = scan(path)
        return copy.deepcopy(known[folder])

    return once


def _replace(names: dict[str, Any], old: object, new: object) -> None:
    """Replace an object among the globals of a module."""
    for key in [key for key, item in names.items() if item is old]:
        names[key] = new


def _mark(waiting: list[_Settle], decorator: str, function: Any = None, *args: Any, **options: Any) -> Any:
    """Apply a decorator of `torch._dynamo` as soon as that is imported; until then there is no compiler to tell."""
    if function is None:
        return functools.partial(_mark, waiting, decorator, **options)
    if decorator != "disable":  # the others mark the function and return it
        waiting.append(lambda dynamo: getattr(dynamo, decorator)(function))
        return function
    current = [function]

    @functools.wraps(function)
    def disabled(*args: Any, **options: Any) -> Any:
        return current[0](*args, **options)

    def settle(dynamo: types.ModuleType) -> None:
        current[0] = dynamo.disable(function, *args, **options)
        disabled.__dict__.update(current[0].__dict__)

    waiting.append(settle)
    return disabled
