"""A fingerprint of a torch module that changes with its weights, buffers, structure, settings, configuration and hooks.

Every bit is read each time: a change through `.data` raises no version counter and moves no memory. The tensors are words
w_p of 64 bits in rows of 1024, and with fixed random odd numbers c and r their fingerprint is

    sum over p of  r[p // 1024] c[p % 1024] (w_p + (w_p >> 35))    modulo 2^64

Integer arithmetic is exact, so the same weights have the same fingerprint on every device, in every process. Changing one word
always changes it; several changes cancel each other with a probability of 2^-29 at most. The shifted word is there because a
product modulo 2^64 keeps only the parity of the uppermost bit: without it two flipped signs would cancel each other.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from transformers import PretrainedConfig

_ROW = 1024  # words
_SHIFT = 35
_BLOCK = {"cpu": 256, "cuda": 16_384}  # rows at a time: what stays in the cache of a core, and 128 MB
_STATE_ELSEWHERE = ("training", "name_or_path")  # settings of a module that do not show in its answers
_CONFIG_ELSEWHERE = ("name_or_path", "architectures", "transformers_version", "dtype", "torch_dtype", "model_type")
_SCALARS = (bool, int, float, complex, str, bytes)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def identity_of(model: torch.nn.Module) -> str:
    """Return a fingerprint of 64 characters, the same for the same model in another process.

    Attributes that are neither tensors nor plain values (numbers, strings, lists of them) are not covered, nor are global
    variables that hooks read.
    """
    lines: list[str] = []
    tensors: dict[int, tuple[int, torch.Tensor]] = {}  # by id, with its number; a tied tensor is read once
    configs: dict[int, PretrainedConfig] = {}
    for name, module in model.named_modules(remove_duplicate=False):  # a module may occur in several places
        lines += _module_lines(name, module, configs)
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                number, _ = tensors.setdefault(id(tensor), (len(tensors), tensor))
                lines.append(f"{name}.{key} {number} {tuple(tensor.shape)} {tensor.dtype}")
    lines += [f"{type(config).__qualname__} {_text(config)}" for config in configs.values()]
    digest = sha256(_ADDRESS.sub("", "\n".join(lines)).encode("utf-8", "surrogatepass"))
    digest.update(repr(fingerprints([tensor for _, tensor in tensors.values()])).encode())
    return digest.hexdigest()


def fingerprints(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return one fingerprint per device, of all its tensors, devices in the order in which they appear."""
    devices: dict[torch.device, list[torch.Tensor]] = {}
    with torch.inference_mode():
        for tensor in tensors:
            for raw in _raw(tensor):
                devices.setdefault(raw.device, []).append(raw)
        return [_fingerprint(parts) for parts in devices.values()]


def _raw(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the bytes (n,) of a tensor of any kind, aligned to words, on the host or a CUDA device."""
    if hasattr(tensor, "__tensor_flatten__"):  # a tensor made of tensors (quantised, distributed)
        for name in tensor.__tensor_flatten__()[0]:
            yield from _raw(getattr(tensor, name))
        return
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.device.type not in _BLOCK:
        tensor = tensor.cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.numel():
        flat = tensor.resolve_neg().contiguous().reshape(-1)
        if flat.stride(0) != 1 or flat.storage_offset() * flat.itemsize % 8:
            flat = flat.clone(memory_format=torch.contiguous_format)
        yield flat.view(torch.uint8)


def _fingerprint(parts: list[torch.Tensor]) -> int:
    """Return the fingerprint of bytes: whole rows of each part first, then the rest of all parts, padded with zeros."""
    device, size = parts[0].device, 8 * _ROW
    rest = torch.cat([raw[len(raw) // size * size :] for raw in parts])
    rows = [*(raw[: len(raw) // size * size] for raw in parts), torch.nn.functional.pad(rest, (0, -len(rest) % size))]
    tables = [part.view(torch.int64).view(-1, _ROW) for part in rows]
    blocks = [block for table in tables for block in torch.split(table, _BLOCK[device.type])]
    columns = _odd_numbers(_ROW, 0, device)
    sums = torch.cat([(block >> _SHIFT).add_(block).mul_(columns).sum(1) for block in blocks])
    return int((sums * _odd_numbers(1 << len(sums).bit_length(), 1, device)[: len(sums)]).sum())


@lru_cache(maxsize=64)
def _odd_numbers(n: int, stream: int, device: torch.device) -> torch.Tensor:
    """Return n random odd numbers, the same on every machine; a longer list begins with the same ones."""
    return torch.from_numpy((np.random.PCG64(stream).random_raw(n) | np.uint64(1)).view(np.int64)).to(device)


def _module_lines(name: str, module: torch.nn.Module, configs: dict[int, PretrainedConfig]) -> Iterator[str]:
    """Yield what a module consists of besides tensors and other modules, and collect its configuration."""
    kind = type(module)
    yield f"{name} {kind.__module__}.{kind.__qualname__} {module.extra_repr()}"
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        yield from (_text(hook) for hook in hooks.values())
    if kind.__module__.startswith("torch.") and not kind.__module__.startswith("torch.nn.modules."):
        return  # wrappers keep statistics of their own
    for key, value in vars(module).items():
        if isinstance(value, PretrainedConfig):
            configs[id(value)] = value
        elif key not in _STATE_ELSEWHERE and (not key.startswith("_") or "adapter" in key):  # PEFT: which ones are active
            yield f"{key} {_text(value)}"


def _text(value: Any, depth: int = 4) -> str:
    """Return a description of plain values and functions, without addresses; "" for anything else."""
    if value is None or isinstance(value, (*_SCALARS, torch.dtype)):
        return repr(value)
    if depth == 0 or isinstance(value, torch.nn.Module):  # lists may hold themselves
        return ""
    if isinstance(value, PretrainedConfig):
        value = {key: v for key, v in vars(value).items() if not key.startswith("_") and key not in _CONFIG_ELSEWHERE}
    elif callable(value):
        value = _parts_of(value)
    if isinstance(value, dict):
        return str(sorted(f"{key}: {_text(part, depth - 1)}" for key, part in value.items()))
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [_text(part, depth - 1) for part in value]
        return str(sorted(parts) if isinstance(value, (set, frozenset)) else parts)
    return ""


def _parts_of(function: Any) -> list[Any]:
    """Return the name of a function with its code, and the numbers and strings that it has, not the results it collects."""
    function = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(function, partial):
        return [function.func, function.args, function.keywords]
    if not isinstance(function, FunctionType):
        state = [part for part in getattr(function, "__dict__", {}).values() if isinstance(part, _SCALARS)]
        return [getattr(function, "__qualname__", type(function).__qualname__), *state]
    code, cells = function.__code__, function.__closure__ or ()
    state = [cell.cell_contents for cell in cells if isinstance(cell.cell_contents, _SCALARS)]
    name = f"{function.__module__}.{function.__qualname__} {code.co_code.hex()}"
    return [name, code.co_names, code.co_consts, function.__defaults__, function.__kwdefaults__, *state]
