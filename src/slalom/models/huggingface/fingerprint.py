"""A fingerprint of a torch module that changes with its weights, buffers, structure, settings, configuration and hooks.

Every bit is read each time: a change through `.data` raises no version counter and moves no memory. The tensors are words
w_p of 64 bits in rows of 1024, and with fixed random odd numbers c and r their fingerprint is

    sum over p of  r[p // 1024] c[p % 1024] (w_p + (w_p >> 35))    modulo 2^64

Integer arithmetic is exact, so the same weights have the same fingerprint on every device, in every process. Changing one word
always changes it; several changes cancel each other with a probability of 2^-29 at most. The shifted word is there because a
product modulo 2^64 keeps only the parity of the uppermost bit: without it two flipped signs would cancel each other.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from hashlib import sha256
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PretrainedConfig

_ROW = 1024  # words
_SHIFT = 35
_CPU_ROWS = 64  # at a time: half a megabyte, which stays in the cache of a core
_GPU_ROWS = 16_384  # at a time: 128 MB
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
    for config in configs.values():
        lines.append(f"{type(config).__qualname__} {_config_text(config)}")
    digest = sha256(_ADDRESS.sub("", "\n".join(lines)).encode("utf-8", "surrogatepass"))
    digest.update(repr(fingerprints([tensor for _, tensor in tensors.values()])).encode())
    return digest.hexdigest()


def fingerprints(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return one fingerprint per device, of all its tensors, devices in the order in which they appear.

    Example:
        >>> a, b = torch.tensor([1.0, -1.0]), torch.tensor([-1.0, 1.0])
        >>> fingerprints([a]) == fingerprints([a.clone()]), fingerprints([a]) == fingerprints([b])
        (True, False)
    """
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
    if tensor.device.type not in ("cpu", "cuda"):
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
    rows: list[torch.Tensor] = []
    words: list[torch.Tensor] = []
    odd: list[torch.Tensor] = []
    for raw in parts:
        whole = len(raw) // 8 * 8
        aligned = raw[:whole].view(torch.int64)
        full = len(aligned) // _ROW * _ROW
        if full:
            rows.append(aligned[:full].view(-1, _ROW))
        words.append(aligned[full:])
        odd.append(raw[whole:])
    words.append(_padded(torch.cat(odd), 8).view(torch.int64))
    rows.append(_padded(torch.cat(words), _ROW).view(-1, _ROW))
    return _sum_by_torch(rows) if rows[0].device.type == "cuda" else _sum_by_numpy(rows)


def _sum_by_torch(rows: list[torch.Tensor]) -> int:
    """Return the fingerprint of rows (k, 1024), computed on their device."""
    columns = _odd_numbers_on(_ROW, 0, rows[0].device)
    blocks = [block for part in rows for block in _blocks(part, _GPU_ROWS)]
    sums = torch.cat([(block >> _SHIFT).add_(block).mul_(columns).sum(1) for block in blocks])
    return int((sums * _odd_numbers_on(_rounded_up(len(sums)), 1, sums.device)[: len(sums)]).sum())


def _sum_by_numpy(rows: list[torch.Tensor]) -> int:
    """Return the fingerprint of rows (k, 1024) in host memory, with as many threads as torch has."""
    blocks = [block.numpy() for part in rows for block in _blocks(part, _CPU_ROWS)]
    workers = max(min(torch.get_num_threads(), len(blocks) // 8), 1)
    shares = [blocks[k * len(blocks) // workers : (k + 1) * len(blocks) // workers] for k in range(workers)]
    with ThreadPoolExecutor(workers) as pool:  # numpy releases the interpreter lock in each step
        sums = np.concatenate([part for share in pool.map(_row_sums, shares) for part in share])
    return int((sums * _odd_numbers(_rounded_up(len(sums)), 1)[: len(sums)]).sum())


def _row_sums(blocks: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return the weighted sums (k,) of the rows of blocks (k, 1024)."""
    columns, buffer = _odd_numbers(_ROW, 0), np.empty((_CPU_ROWS, _ROW), dtype=np.int64)
    sums = []
    for block in blocks:
        mixed = buffer[: len(block)]
        np.right_shift(block, _SHIFT, out=mixed)
        np.add(mixed, block, out=mixed)
        sums.append(np.einsum("ij,j->i", mixed, columns))
    return sums


def _blocks(rows: torch.Tensor, n: int) -> Iterator[torch.Tensor]:
    return (rows[start : start + n] for start in range(0, len(rows), n))


def _padded(vector: torch.Tensor, multiple: int) -> torch.Tensor:
    return torch.nn.functional.pad(vector, (0, -len(vector) % multiple))


def _rounded_up(n: int) -> int:
    return 1 << max(n - 1, 1).bit_length()


@lru_cache(maxsize=64)
def _odd_numbers(n: int, stream: int) -> NDArray[np.int64]:
    """Return n random odd numbers, the same on every machine; a longer list begins with the same ones."""
    return (np.random.PCG64(stream).random_raw(n) | np.uint64(1)).view(np.int64)


@lru_cache(maxsize=64)
def _odd_numbers_on(n: int, stream: int, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(_odd_numbers(n, stream)).to(device)


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


def _config_text(config: PretrainedConfig) -> str:
    return _text({key: v for key, v in vars(config).items() if not key.startswith("_") and key not in _CONFIG_ELSEWHERE})


def _text(value: Any, depth: int = 4) -> str:
    """Return a description of plain values and functions, without addresses; "" for anything else."""
    text = ""
    if value is None or isinstance(value, (*_SCALARS, torch.dtype)):
        text = repr(value)
    elif depth == 0:
        pass  # lists may hold themselves
    elif isinstance(value, PretrainedConfig):
        text = _config_text(value)
    elif isinstance(value, (list, tuple)):
        text = str([_text(part, depth - 1) for part in value])
    elif isinstance(value, (set, frozenset)):
        text = str(sorted(_text(part, depth - 1) for part in value))
    elif isinstance(value, dict):
        text = str(sorted(f"{key}: {_text(part, depth - 1)}" for key, part in value.items()))
    elif callable(value) and not isinstance(value, torch.nn.Module):
        text = _callable_text(value, depth - 1)
    return text


def _callable_text(function: Any, depth: int) -> str:
    """Return the name of a function with its code, and the numbers and strings in its closure."""
    function = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(function, partial):
        return _text([function.func, function.args, function.keywords], depth)
    if not isinstance(function, FunctionType):
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{name} {_scalars(getattr(function, '__dict__', {}).values())}"
    code = function.__code__
    constants = _text([code.co_names, code.co_consts, function.__defaults__, function.__kwdefaults__], depth)
    closure = _scalars(_contents(cell) for cell in function.__closure__ or ())
    return f"{function.__module__}.{function.__qualname__} {code.co_code.hex()} {constants} {closure}"


def _scalars(values: Iterable[Any]) -> str:
    """Return the numbers and strings among values; lists are left out, since hooks collect results in them."""
    return repr([value for value in values if isinstance(value, _SCALARS)])


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None
