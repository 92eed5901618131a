"""`slalom info`: versions, devices, the bundled model and the adapters."""

import json
import math
import platform
from typing import Any

from rich.table import Table
from rich.text import Text

import slalom
from slalom.cli.options import Json
from slalom.cli.printing import console
from slalom.errors import count

_PACKAGES = ("numpy", "scipy", "torch", "transformers", "scikit-learn", "matplotlib", "pandas", "datasets")


def info(*, as_json: Json = False) -> None:
    """Show versions, devices, the bundled model, and what kinds of models can be explained."""
    facts = _facts()
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0), pad_edge=False)
    for name, value in facts["versions"].items():
        table.add_row(name, value or "not installed")
    table.add_row("devices", Text(", ".join(facts["devices"])))
    model = facts["model"]
    table.add_row(
        "model",
        f"{model['name']}: {model['parameters']:,} parameters, {model['megabytes']} MB, labels {', '.join(model['labels'])}"
        if model
        else "missing; reinstall slalom",
    )
    if model:
        table.add_row("", Text(str(model["path"])))
    for number, adapter in enumerate(facts["adapters"]):
        table.add_row("" if number else "can explain", Text(f"{adapter['name']}: {adapter['summary']}"))
    console().print(table)


def _facts() -> dict[str, Any]:
    from slalom.models import adapters  # noqa: PLC0415
    from slalom.result import versions  # noqa: PLC0415

    ours = {"slalom": slalom.__version__, "python": platform.python_version()}
    kinds = [{"name": a.name, "summary": a.summary, "extra": a.extra} for a in adapters().values()]
    packages = {**ours, **dict.fromkeys(_PACKAGES), **versions(*_PACKAGES)}
    return {"versions": packages, "devices": _devices(), "model": _model(), "adapters": kinds}


def _devices() -> list[str]:
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return ["cpu (numpy only; pip install 'slalom-xai[hf]' for torch)"]
    cards = [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    return [f"cpu ({count(torch.get_num_threads(), 'thread')})", *cards]


def _model() -> dict[str, Any] | None:
    from slalom.models import EMBEDDED, EMBEDDED_NAME  # noqa: PLC0415

    weights = EMBEDDED / "model.safetensors"
    if not weights.exists():
        return None
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    sizes = (tensor["shape"] for name, tensor in header.items() if name != "__metadata__")
    config = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))
    return {
        "name": EMBEDDED_NAME,
        "parameters": sum(math.prod(shape) for shape in sizes),
        "megabytes": round(sum(part.stat().st_size for part in EMBEDDED.iterdir()) / 1e6, 1),
        "labels": list(config["id2label"].values()),
        "path": str(EMBEDDED),
    }
