"""Try the wheels in a folder: what they hold, and that the one for this machine works in an empty environment.

``make wheels`` runs it: ``python tests/check_wheels.py dist``. It needs packaging, and an index for the dependencies.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

LIBRARY = "oddsmith/kernels/native/_kernels."

TRY = """
import ctypes, importlib.util, sys
from importlib.metadata import files
from pathlib import Path
from sklearn.datasets import load_iris
from oddsmith import LogisticRegression

(library,) = (Path(file.locate()) for file in files("oddsmith") if file.stem == "_kernels")
assert ctypes.CDLL(str(library)).oddsmith_levels() & 1, library
X, y = load_iris(return_X_y=True)
model = LogisticRegression(prior=1.0).fit(X, y)
assert model.certificate_.converged and model.score(X, y) > 0.95
print(f"{library.name} with {library.stat().st_size} bytes; iris fitted, Python {sys.version.split()[0]}")
for name in ("numba", "llvmlite"):
    assert importlib.util.find_spec(name) is None, f"{name} was installed along."
"""


def check_content(wheel: Path) -> None:
    """Hold what a wheel contains against what its tag says: one library, no sources in C."""
    names = zipfile.ZipFile(wheel).namelist()
    suffix = "dylib" if "macosx" in wheel.name else "dll" if "win_" in wheel.name else "so"
    assert [name for name in names if "_kernels." in name] == [LIBRARY + suffix], f"{wheel.name}: the library"
    assert not [name for name in names if name.endswith((".c", ".h"))], f"{wheel.name}: sources in C"
    print(f"{wheel.stat().st_size:>10} {wheel.name}")


def suits_this_machine(wheel: Path) -> bool:
    """Whether the running interpreter can install a wheel."""
    return not parse_wheel_filename(wheel.name)[3].isdisjoint(sys_tags())


def main() -> None:
    """Check all wheels in the folder that is named; install and try one."""
    wheels = sorted(Path(sys.argv[1]).resolve().glob("oddsmith-*.whl"))
    for wheel in wheels:
        check_content(wheel)
    ours = next((wheel for wheel in wheels if suits_this_machine(wheel)), None)
    if ours is None:
        raise SystemExit(f"None of the {len(wheels)} wheels in {sys.argv[1]} is for this machine.")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        for arguments in (["-m", "pip", "--quiet", "--disable-pip-version-check", "install", str(ours)], ["-c", TRY]):
            done = subprocess.run([python, *arguments], cwd=folder, env=environment, check=False)
            if done.returncode:
                raise SystemExit(f"{ours.name} failed in an empty environment.")


if __name__ == "__main__":
    main()
