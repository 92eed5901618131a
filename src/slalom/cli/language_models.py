"""Language models by their folder, for the commands that ask one."""

from typing import Any


def load_language_model(folder: str, device: str | None = None) -> tuple[Any, Any]:
    """Return a causal language model and its tokenizer.

    Args:
        folder: Its folder, or its name on the hub.
        device: The device to load it to. Default: a GPU if there is one.
    """
    from slalom.errors import require  # noqa: PLC0415

    with require("a language model", "hf"):
        from slalom.models.huggingface import answers  # noqa: PLC0415
    return answers.load_language_model(folder, device)
