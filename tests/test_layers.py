"""Imports go one way, and light things stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import oddsmith

SRC = Path(oddsmith.__file__).parent

# Each room may import from those before it, and from itself.
LAYERS = (
    *("errors", "cached_property", "registry", "protocols", "records", "numerics", "bordered", "links", "losses"),
    *("priors", "rows", "block", "statistic", "kernels", "statistics", "engines", "design", "solvers"),
    *("likelihood", "densities", "inference", "prior_selection", "decision", "data_access", "models", "evaluation"),
    *(
        "persistence",
        "export",
        "federated",
        "data",
        "plots",
        "report",
        "lectures",
        "lab",
        "cli",
        "testing",
        "demo",
        "__main__",
    ),
)
LEVEL = {room: level for level, room in enumerate(LAYERS)}
# Doors that open the other way, when they are called: a model saves, exports and reports itself; a fit that can be
# interrupted keeps a journal.
DOORS = {
    (Path("models", "base.py"), "persistence"),
    (Path("models", "base.py"), "export"),
    (Path("models", "base.py"), "report"),
    (Path("data_access", "checkpoint.py"), "persistence"),
}
MODULES = sorted(path for path in SRC.rglob("*.py") if path != SRC / "__init__.py")

HEAVY = ("matplotlib", "pyarrow", "dask", "pandas", "polars", "sklearn", "scipy", "starlette", "torch", "uvicorn")


def room(path: Path) -> str:
    """The folder of a module, or its name if it stands at the top."""
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Every room of ours that a module imports from, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively: write oddsmith.… instead."
            names = [f"oddsmith.{a.name}" for a in node.names] if node.module == "oddsmith" else [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("oddsmith.")}
    return found - {"__version__"}


@pytest.mark.parametrize("here", sorted({room(path) for path in MODULES}))
def test_modules_import_only_from_layers_above(here: str) -> None:
    assert here in LEVEL, f"{here!r} has no place among the layers."
    for path in (path for path in MODULES if room(path) == here):
        for other in imported_rooms(path):
            # A public name of the package stands for its home.
            other = oddsmith._HOME[other].split(".")[1] if other in oddsmith._HOME else other
            allowed = LEVEL[other] <= LEVEL[here] or (path.relative_to(SRC), other) in DOORS
            assert allowed, f"{path.relative_to(SRC)} imports from {other!r}."


def test_every_public_name_can_be_imported() -> None:
    for name in oddsmith.__all__:
        assert getattr(oddsmith, name) is not None
    assert set(oddsmith.__all__) <= set(dir(oddsmith))
    with pytest.raises(AttributeError, match="no attribute 'LogisticRegresion'"):
        oddsmith.LogisticRegresion  # noqa: B018


def loaded_after(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after running ``code``."""
    program = f"{code}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_import_loads_nothing_heavy() -> None:
    assert not loaded_after("import oddsmith") & {*HEAVY, "numpy"}


def test_help_loads_no_server() -> None:
    code = (
        "from typer.testing import CliRunner\n"
        "from oddsmith.cli.app import app\n"
        "assert 'explore' in CliRunner().invoke(app, ['--help']).output"
    )
    assert not loaded_after(code) & {"starlette", "uvicorn", "sklearn", "matplotlib"}


def test_small_fit_loads_nothing_more() -> None:
    code = (
        "import numpy as np\n"
        "from oddsmith import LogisticRegression\n"
        "rng = np.random.default_rng(0)\n"
        "X, y = rng.normal(size=(1000, 5)), np.arange(1000) % 3\n"
        "LogisticRegression(prior=1.0).fit(X, y).predict_proba(X)\n"
        "LogisticRegression().fit(X, y > 0).distance(X)"
    )
    # Not pandas and pyarrow: scikit-learn loads them where they are installed.
    assert not loaded_after(code) & {"matplotlib", "polars", "dask", "torch"}


def test_fit_of_arrays_loads_only_the_rooms_that_it_needs() -> None:
    code = (
        "import sys, numpy as np, sklearn.linear_model\n"
        "before = set(sys.modules)\n"
        "from oddsmith import LogisticRegression\n"
        "X, y = np.arange(12.0).reshape(6, 2) % 5, np.arange(6) % 2\n"
        "LogisticRegression(prior=1.0).fit(X, y)\n"
        "new = set(sys.modules) - before\n"
        "sys.stdout.write(' '.join(sorted(new)) + '\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "oddsmith.likelihood.fit" in loaded
    unneeded = ("inference", "densities", "prior_selection", "decision", "persistence", "evaluation", "design.formula")
    unneeded += ("design.frame", "design.data_summary", "design.basis.spline", "engines.dask", "engines.files")
    unneeded += ("data_access.streamed_prediction", "data_access.training_stream", "models.gaussian")
    away = ("pyarrow", *(f"oddsmith.{name}" for name in unneeded))  # scikit-learn may load part of pyarrow before
    assert not {name for name in loaded for other in away if name == other or name.startswith(f"{other}.")}
    assert sum(name.startswith("oddsmith.") for name in loaded) < 90


def test_modules_are_short_enough_to_read() -> None:
    lines = {str(path.relative_to(SRC)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    # About 500 lines: whatever is longer holds two ideas.
    assert not {name: count for name, count in lines.items() if count > 600}
