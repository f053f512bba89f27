"""Compile the kernels in ``src/oddsmith/kernels/native`` into one shared library.

Used in two ways. As hatchling's build hook it puts the library into the wheel, or into the source tree for an editable
install. As a script, ``python build_kernels.py``, it compiles what changed; that needs the standard library only.

``levels.c`` is compiled once, every other file once for each instruction set. The compiler is ``CC``, or the system's
``cc``, ``gcc`` or ``clang``. If none of them is usable, and for other platforms, the package ``ziglang`` compiles.

    CC                the compiler, with arguments if need be
    ODDSMITH_TARGET   the platform to compile for, a key of ``WHEELS``: always by ziglang
    ODDSMITH_PURE     1 leaves the library out: the reference kernels in NumPy serve
"""

import ctypes
import importlib.util
import os
import platform
import runpy
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run as a script
    BuildHookInterface = object  # type: ignore[assignment, misc]

NATIVE = Path("src", "oddsmith", "kernels", "native")
FLAGS = (
    *("-std=gnu11", "-O3", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
    *("-Wall", "-g0"),
)
# The names are known to the sources (-DLEVEL=...) and in this order to levels.c.
LEVELS = {
    "x86_64": {
        "baseline": ("-march=x86-64",),
        "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi2"),
        "avx512": (
            *("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c", "-mbmi2"),
            "-mprefer-vector-width=512",
        ),
    },
}
BASELINE: dict[str, tuple[str, ...]] = {"baseline": ()}  # of any other machine; on ARM it has NEON

# What `make wheels` builds: zig's name of the platform, and the wheel's.
WHEELS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "x86_64-linux-musl": "musllinux_1_2_x86_64",
    "aarch64-linux-musl": "musllinux_1_2_aarch64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-macos.10.13": "macosx_10_13_x86_64",
    "x86_64-windows-gnu": "win_amd64",
}
ZIG_REQUIREMENT = "ziglang>=0.13"
MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}

# Compiled to see whether a compiler is usable: vector extensions as the kernels use them (gcc 9 or clang 10 on), and
# pointers as wide as the interpreter's.
PROBE = """
typedef double vector __attribute__((vector_size(64)));
typedef float narrow __attribute__((vector_size(32)));
typedef long long mask __attribute__((vector_size(64)));
_Static_assert(sizeof(void *) == POINTER, "compiles for another machine than the interpreter's");
vector probe(narrow a, vector b);
vector probe(narrow a, vector b) {
    vector c = __builtin_convertvector(a, vector);
    mask less = c < b;
    return (vector)((mask)c & less) + b * c;
}
"""

# What the library says about itself.
SIGNATURE = """
#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
extern const char oddsmith_sources[];
const char oddsmith_sources[] = "{}";
"""

_SOURCES = runpy.run_path(str(Path(__file__).parent / NATIVE / "sources.py"))
digest = _SOURCES["digest"]


class BuildError(Exception):
    """The library cannot be built; the message says why and what to try."""


class Compiler(NamedTuple):
    """How to call a compiler, what it calls itself, and the platform that it compiles for."""

    command: tuple[str, ...]
    version: str
    system: str  # linux, macos, windows
    machine: str  # x86_64, aarch64, ...
    wheel_platform: str
    environment: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        """A hash of what the compiler is, wherever it is installed."""
        return digest(self.version, self.command[1:], self.wheel_platform)


# --- platforms --------------------------------------------------------------------------------------------------------


def host() -> tuple[str, str]:
    """Return system and machine of the running interpreter, by zig's names."""
    name = sysconfig.get_platform()  # linux-x86_64, macosx-11.0-arm64, win-amd64
    system = {"macosx": "macos", "win": "windows"}.get(name.split("-")[0], name.split("-")[0])
    # A universal build of Python for macOS runs as the one or the other.
    machine = platform.machine() if system == "macos" else name.split("-")[-1]
    return system, MACHINES.get(machine.lower(), machine.lower())


def host_target() -> str | None:
    """Return the target among ``WHEELS`` for the running interpreter; None if there is none."""
    system, machine = host()
    libc = "-musl" if platform.libc_ver()[0] != "glibc" else "-gnu"
    prefix = f"{machine}-{system}" + {"linux": libc, "windows": "-gnu"}.get(system, "")
    return next((target for target in WHEELS if target.startswith(prefix)), None)


def resolve_target(name: str) -> str:
    """Return the target that somebody names; the version at its end may be left out.

    >>> resolve_target("x86_64-linux-gnu")
    'x86_64-linux-gnu.2.17'
    """
    for target in WHEELS:
        if name in (target, target.split(".")[0]):
            return target
    raise BuildError(f"ODDSMITH_TARGET is {name!r}; expected one of {', '.join(WHEELS)}.")


def host_wheel_platform() -> str:
    """Return the wheel's name of this platform for a library that the system's compiler made."""
    system, machine = host()
    if system == "macos":
        target = host_target()
        assert target is not None, machine
        return WHEELS[target]
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def library_name(system: str) -> str:
    """Return the file name of the library.

    >>> library_name("linux")
    '_kernels.so'
    """
    return "_kernels" + {"macos": ".dylib", "windows": ".dll"}.get(system, ".so")


# --- compilers --------------------------------------------------------------------------------------------------------


def run(command: Iterable[str | Path], environment: Mapping[str, str] = {}) -> str:
    """Run a command and return what it prints; raise `BuildError` with that where it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env={**os.environ, **environment}, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise BuildError(f"{shlex.join(words)}\n{error}") from error
    if done.returncode:
        last_lines = (done.stdout + done.stderr).strip().splitlines()[-30:]
        raise BuildError("\n".join([shlex.join(words), *last_lines]))
    return done.stdout + done.stderr


def machine_flags(system: str, machine: str) -> tuple[str, ...]:
    """Return the flags by which the system's compiler compiles for the interpreter's machine."""
    if system != "macos":
        return ()
    oldest = {"aarch64": "11.0", "x86_64": "10.13"}[machine]
    return ("-arch", {"aarch64": "arm64"}.get(machine, machine), f"-mmacosx-version-min={oldest}")


def system_compiler(environment: Mapping[str, str] = os.environ) -> Compiler | None:
    """Return the first of ``CC``, or else cc, gcc and clang, that can compile the kernels; None if none can."""
    system, machine = host()
    named = environment.get("CC", "").strip()
    for words in [shlex.split(named, posix=os.name != "nt")] if named else [["cc"], ["gcc"], ["clang"]]:
        path = shutil.which(words[0], path=environment.get("PATH"))
        if path is None:
            continue
        command = (path, *words[1:], *machine_flags(system, machine))
        try:
            version = run([*command, "--version"]).strip().splitlines()[0]
            compiler = Compiler(command, version, system, machine, host_wheel_platform())
            probe(compiler)
        except (BuildError, IndexError):
            continue
        return compiler
    return None


def probe(compiler: Compiler) -> None:
    """Compile a few lines at each level, link and load them; raise `BuildError` where that fails."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE, encoding="ascii")
        pointer = f"-DPOINTER={struct.calcsize('P')}"
        for flags in LEVELS.get(compiler.machine, BASELINE).values():
            run([*compile_command(compiler, flags), pointer, source, "-o", source.with_suffix(".o")])
        library = Path(folder, library_name(compiler.system))
        run(link_command(compiler, [source.with_suffix(".o")], library))
        try:
            if os.name != "nt":  # a loaded library cannot be deleted there
                ctypes.CDLL(str(library))
        except OSError as error:
            raise BuildError(f"{compiler.version} compiles for another machine: {error}") from error


def zig_compiler(target: str, cache: Path) -> Compiler | None:
    """Return the compiler of the package ziglang for a target; None where the package is not installed."""
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        return None
    program = Path(found.submodule_search_locations[0], "zig.exe" if os.name == "nt" else "zig")
    machine, system = target.split("-")[:2]
    # Its caches stay in our folder; they would be in the user's otherwise.
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    version = f"zig {run([program, 'version']).strip()}"
    command = (str(program), "cc", "-target", target)
    return Compiler(command, version, system.split(".")[0], machine, WHEELS[target], caches)


def compile_command(compiler: Compiler, flags: Iterable[str]) -> list[str]:
    """Return the command that compiles, without its files."""
    relocatable = () if compiler.system == "windows" else ("-fPIC",)
    if compiler.version.startswith("zig"):  # a hyphen in -march takes a feature away there
        flags = [flag.replace("=x86-64", "=x86_64") for flag in flags]
    return [*compiler.command, *FLAGS, *relocatable, *flags, "-c"]


def link_command(compiler: Compiler, objects: Iterable[Path], library: Path) -> list[str]:
    """Return the command that links."""
    flags = {"linux": ("-s", "-lm"), "macos": (f"-Wl,-install_name,@rpath/{library.name}",)}.get(
        compiler.system, ("-s",)
    )
    return [*compiler.command, "-shared", *map(str, objects), *flags, "-o", str(library)]


# --- the library ------------------------------------------------------------------------------------------------------


def signature(root: Path) -> str:
    """Return the text ``oddsmith_sources`` of the library: a hash of all sources, one of the flags, and their size."""
    size = sum(path.stat().st_size for path in (root / NATIVE).glob("*.[ch]"))
    return f"{_SOURCES['sources_signature'](root / NATIVE)}:{digest(FLAGS, LEVELS)}:{size}"


def is_current(library: Path, root: Path) -> bool:
    """Whether a library is there and was compiled from the sources as they are."""
    return library.is_file() and signature(root).encode() in library.read_bytes()


def compile_object(compiler: Compiler, source: Path, flags: tuple[str, ...], output: Path) -> str:
    """Compile one object unless it is up to date; return its key, a hash of all that it depends on."""
    headers = [path.read_bytes() for path in sorted(source.parent.glob("*.h"))]
    command = compile_command(compiler, flags)
    key, record = digest(compiler.key, command[1:], source.read_bytes(), headers), output.with_suffix(".key")
    if not (output.is_file() and record.is_file() and record.read_text() == key):
        record.unlink(missing_ok=True)
        warnings = run([*command, source, "-o", output], compiler.environment)
        if warnings:
            print(warnings, file=sys.stderr)
        record.write_text(key)
    return key


def build_library(compiler: Compiler, root: Path) -> Path:
    """Compile what changed, several files at a time, and link; return the library, in ``build/kernels``."""
    folder = root / "build" / "kernels" / f"{compiler.wheel_platform}-{compiler.key[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    named = folder / "signature.c"
    named.write_text(SIGNATURE.format(signature(root)), encoding="ascii")
    jobs: list[tuple[Path, tuple[str, ...], Path]] = [(named, (), folder / "signature.o")]
    for source in sorted((root / NATIVE).glob("*.c")):
        if source.name == "levels.c":
            jobs.append((source, (), folder / "levels.o"))
            continue
        for level, flags in LEVELS.get(compiler.machine, BASELINE).items():
            jobs.append((source, (*flags, f"-DLEVEL={level}"), folder / f"{source.stem}-{level}.o"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        keys = list(pool.map(lambda job: compile_object(compiler, *job), jobs))
    library = folder / library_name(compiler.system)
    record, key = folder / "library.key", digest(link_command(compiler, [], library)[1:], *keys)
    if not (library.is_file() and record.is_file() and record.read_text() == key):
        record.unlink(missing_ok=True)
        library.unlink(missing_ok=True)
        run(link_command(compiler, [output for *_, output in jobs], library), compiler.environment)
        record.write_text(key)
    return library


def install_library(library: Path, root: Path) -> Path:
    """Copy the library into the source tree.

    The old file is replaced, not overwritten: a process that has it loaded keeps it. One that is up to date becomes
    newer than its sources, which tells the package so without reading them.
    """
    place = root / NATIVE / library.name
    if place.is_file() and place.read_bytes() == library.read_bytes():
        os.utime(place)
    else:
        fresh = place.with_name(f"new{place.name}")
        shutil.copyfile(library, fresh)
        fresh.replace(place)
    return place


def in_tree(root: Path) -> Path:
    """Return where the library for this machine stands in the source tree."""
    return root / NATIVE / library_name(host()[0])


def is_pure() -> bool:
    """Whether a build without the library is asked for."""
    return os.environ.get("ODDSMITH_PURE", "") not in ("", "0")


def needs_zig(root: Path) -> bool:
    """Whether this build compiles by ziglang."""
    if is_pure():
        return False
    return bool(os.environ.get("ODDSMITH_TARGET")) or not (system_compiler() or is_current(in_tree(root), root))


def build(root: Path) -> tuple[Path, str, str]:
    """Build the library for the platform asked for; return it, the wheel's platform, and what compiled it."""
    named = os.environ.get("ODDSMITH_TARGET")
    compiler = None if named else system_compiler()
    if compiler is None:
        if not named and is_current(in_tree(root), root):
            return in_tree(root), host_wheel_platform(), "as it is in the source tree"
        target = resolve_target(named) if named else host_target()
        if target is None:
            raise BuildError(no_compiler(f"ziglang wheels for {sysconfig.get_platform()} are not known to this build"))
        compiler = zig_compiler(target, root / "build" / "zig")
        if compiler is None:
            raise BuildError(no_compiler("the package ziglang is not installed"))
    try:
        return build_library(compiler, root), compiler.wheel_platform, compiler.version
    except BuildError as error:
        raise BuildError(
            f"{compiler.version} failed on the kernels of oddsmith:\n{error}\n"
            f"Try another compiler: set CC, or ODDSMITH_TARGET={host_target()} for that of the package ziglang. "
            "ODDSMITH_PURE=1 builds without the kernels (slower: NumPy does their work)."
        ) from error


def no_compiler(reason: str) -> str:
    """Return the sentence for those who have no compiler."""
    return (
        f"No usable C compiler for oddsmith's kernels was found as CC, cc, gcc or clang, and {reason}. "
        "Install gcc 9, clang 10 or newer, or `pip install ziglang`, a compiler that pip installs. "
        "ODDSMITH_PURE=1 builds without the kernels (slower: NumPy does their work)."
    )


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put the library into a wheel, or into the source tree where the install is editable."""

    def dependencies(self) -> list[str]:
        """Ask for ziglang only where it compiles."""
        return [ZIG_REQUIREMENT] if needs_zig(Path(self.root)) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform in the wheel's tag."""
        root = Path(self.root)
        if is_pure():
            if version == "editable":
                in_tree(root).unlink(missing_ok=True)
            return
        try:
            library, wheel_platform, compiled_by = build(root)
        except BuildError as error:
            self.app.abort(str(error))
            return
        self.app.display_info(f"Kernels: {library.name} for {wheel_platform}, {compiled_by}")
        if version == "editable":
            install_library(library, root)
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel_platform}"
        build_data["force_include"][str(library)] = str(Path(*NATIVE.parts[1:], library.name))


def main() -> None:
    """Build the library into the source tree; with ``--targets``, list what `make wheels` builds."""
    if sys.argv[1:] == ["--targets"]:
        print(*WHEELS, sep="\n")
        return
    root = Path(__file__).resolve().parent
    try:
        library, _, compiled_by = build(root)
    except BuildError as error:
        raise SystemExit(str(error)) from None
    print(f"{install_library(library, root).relative_to(root)}: {compiled_by}")


if __name__ == "__main__":
    main()
