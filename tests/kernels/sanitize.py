"""Run the tests of the kernels with AddressSanitizer and UndefinedBehaviorSanitizer, for all instruction sets.

    python tests/kernels/sanitize.py [arguments of pytest]

The library is compiled by gcc into ``build/sanitize``, beside a copy of the package that loads it. Findings are
printed; the exit status is 1 if there are any, or if a test fails. Needs Linux, and pytest as for ``make test``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from build_kernels import FLAGS, LEVELS, NATIVE, SIGNATURE, run, signature  # noqa: E402

FOLDER = ROOT / "build" / "sanitize"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1")
MARKS = ("runtime error:", "ERROR: AddressSanitizer", "SUMMARY: AddressSanitizer")


def build_library(place: Path) -> None:
    """Compile every file for every level with the flags of the build, and link."""
    signed, objects = FOLDER / "signature.c", []
    signed.write_text(SIGNATURE.format(signature(ROOT)), encoding="ascii")
    for source in [signed, *sorted((ROOT / NATIVE).glob("*.c"))]:
        levels = {"": ()} if source.name in ("levels.c", signed.name) else LEVELS["x86_64"]
        for level, flags in levels.items():
            objects.append(FOLDER / f"{source.stem}-{level}.o")
            plain = [flag for flag in FLAGS if flag not in ("-O3", "-g0")]
            named = [f"-DLEVEL={level}"] if level else []
            run(["gcc", *plain, *SANITIZERS, "-fPIC", *flags, *named, "-c", source, "-o", objects[-1]])
    run(["gcc", "-shared", *SANITIZERS, *objects, "-lm", "-o", place])


def leaks(report: str) -> list[str]:
    """Return the leaks that kernels made: the interpreter never frees all of its memory."""
    parts = report.split("\n\n")
    return [part for part in parts if "leak of" in part and ("_kernels.so" in part or NATIVE.as_posix() in part)]


def findings(logs: list[Path], output: str) -> list[str]:
    """Return what the sanitizers found, each finding once."""
    found: dict[str, None] = {}
    for report in (output, *(path.read_text(errors="replace") for path in logs)):
        found.update(dict.fromkeys(leaks(report)))
        found.update(dict.fromkeys(line for line in report.splitlines() if any(mark in line for mark in MARKS)))
    return [line for line in found if "LeakSanitizer" not in line and "byte(s) leaked" not in line]


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    package = FOLDER / "src"
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__", "_kernels.*"))
    build_library(package / NATIVE.relative_to("src") / "_kernels.so")
    log = FOLDER / "log"
    environment = {
        **os.environ,
        "LD_PRELOAD": run(["gcc", "-print-file-name=libasan.so"]).strip(),
        "ASAN_OPTIONS": f"detect_leaks=1:handle_segv=0:exitcode=0:log_path={log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={log}",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(package),
        "OMP_NUM_THREADS": "1",
    }
    # The gaps that test_path_work knows are those of optimised kernels, which round otherwise than these.
    what = sys.argv[1:] or ["tests/kernels", "--ignore=tests/kernels/test_path_work.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", *what]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = findings(sorted(FOLDER.glob("log.*")), done.stdout + done.stderr)
    print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
    print(*found, f"{len(found)} findings", sep="\n")
    return int(bool(found) or done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
