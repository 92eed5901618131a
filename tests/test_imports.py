"""What an import loads, and what happens where an optional dependency or a device is missing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp

from slalom.cli.app import COMMANDS

HEAVY = (
    "torch",
    "transformers",
    "matplotlib",
    "plotly",
    "pandas",
    "sklearn",
    "captum",
    "openai",
    "fastapi",
    "pyarrow",
    "ray",
    "lightgbm",
)


def python(code):
    """The lines that a fresh interpreter prints; warnings are errors, and no GPU is to be seen."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


_LIGHT = [
    "slalom",
    "slalom.core",
    "slalom.core.fitting",
    "slalom.models",
    "slalom.methods",
    "slalom.theory.attention",
    "slalom.evaluate",
]


def test_imports_load_no_optional_dependency():
    """One after the other in one interpreter; the first that loads something heavy is named."""
    loaded = "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    lines = python("import sys\n" + "".join(f"import {module}; {loaded}\n" for module in _LIGHT))
    for module, line in zip(_LIGHT, lines, strict=True):
        assert "slalom" in line.split()
        assert not set(line.split()) & set(HEAVY), module


def test_help_needs_no_arrays():
    """The help of one command after the other, in one interpreter."""
    code = (
        "import sys\nfrom slalom.cli import main\n"
        f"for words in {[[], *([command] for command in COMMANDS)]}:\n"
        " sys.argv = ['slalom', *words, '--help']\n try: main()\n except SystemExit: print('loaded', words, *sys.modules)\n"
    )
    lines = [line.split() for line in python(code) if line.startswith("loaded")]
    assert len(lines) == 1 + len(COMMANDS)
    assert not {f"slalom.cli.{name}" for name in COMMANDS} & set(lines[0])  # each is imported when it runs
    heavy = {"numpy", "scipy", "tqdm", "jinja2", "tokenizers", *HEAVY}
    for line in lines:
        assert not {name.split(".")[0] for name in line} & heavy, line[1]


def test_the_core_names_what_a_user_needs_and_every_public_name_exists():
    import slalom.core  # noqa: PLC0415

    needed = {"Slalom", "Link", "fit", "recover", "Beta", "Point", "Joint", "Linear", "Sgd", "Alternating"}
    assert needed <= set(slalom.core.__all__)
    assert all(hasattr(slalom.core, name) for name in slalom.core.__all__)


def test_a_fit_needs_no_torch_and_a_transformer_names_what_to_install():
    code = "from slalom.core import fit; print(fit([[1, 0], [0, 1], [1, 1]], [1.0, 2.0, 1.5]).r2 > 0.9)\n"
    asked = "try:\n from slalom.theory import slalom_transformer\nexcept Exception as error: print(type(error).__name__, error)"
    fitted, line = python(f"import sys; sys.modules['torch'] = None\n{code}{asked}")
    assert fitted == "True"
    assert line.startswith("MissingExtra slalom_transformer needs torch and transformers; install them with")


def test_no_module_imports_itself_by_way_of_others():
    """Imports inside of functions count, but for the views that pyproject.toml lists; those for type checking do not."""
    (layers, *_) = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    views = {tuple(line.split(" -> ")) for line in layers["ignore_imports"]}
    graph = grimp.build_graph("slalom", exclude_type_checking_imports=True)
    modules = {
        module: {other for other in graph.find_modules_directly_imported_by(module) if (module, other) not in views}
        for module in graph.modules
    }
    left = dict(modules)
    while leaves := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in leaves:
            del left[module]
    assert not left
