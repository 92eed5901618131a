"""Extension of griffe for the reference: examples become code, and names are shown that a submodule of the same name hides."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^([ \t]*)>>> .*(?:\n[ \t]*\S.*)*", re.MULTILINE)


def fenced(docstring: str) -> str:
    """Return a docstring with its doctests as fenced code, which Markdown would otherwise take for quotations.

    >>> print(fenced("Add.\\n\\n>>> 1 + 1\\n2"))
    Add.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    """
    return _EXAMPLE.sub(lambda found: f"{found[1]}```python\n{found[0]}\n{found[1]}```", docstring)


class Docstrings(griffe.Extension):
    """Prepares what griffe has read for mkdocstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Fence all examples, and let a name such as `slalom.core.shapley` be the exported function, not the module."""
        objects: list[griffe.Object] = [pkg]
        for one in objects:  # it grows
            objects += [member for member in one.members.values() if isinstance(member, griffe.Object)]
            if one.docstring is not None and "```" not in one.docstring.value:
                one.docstring.value = fenced(one.docstring.value)
        exported = [(one, str(name)) for one in objects if isinstance(one, griffe.Module) for name in one.exports or ()]
        for module, name in exported:  # all of them first: afterwards a path may lead to a function instead of a module
            member = module.members.get(name)
            if isinstance(member, griffe.Alias):
                member.resolve_target()
        for module, name in exported:
            member = module.members.get(name)
            if isinstance(member, griffe.Module) and name in member.members:
                module.members[name] = griffe.Alias(name, member.members[name], parent=module)
