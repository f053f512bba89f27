"""The build of the compiled kernels: platforms, flags, the choice of a compiler, and a library that is up to date."""

import ctypes
import doctest
import importlib.util
import os
import stat
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from oddsmith.kernels import native

ROOT = Path(__file__).parents[1]


def load() -> ModuleType:
    """Import build_kernels.py, which is no part of the package, as hatchling does."""
    spec = importlib.util.spec_from_file_location("build_kernels", ROOT / "build_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernels = load()

needs_compiler = pytest.mark.skipif(kernels.system_compiler() is None, reason="no usable C compiler on this machine")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CC", "ODDSMITH_TARGET", "ODDSMITH_PURE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree of two files in C and a header, without a library."""
    native = tmp_path / kernels.NATIVE
    native.mkdir(parents=True)
    (native / "levels.c").write_text('__attribute__((visibility("default"))) int oddsmith_levels(void) { return 1; }\n')
    (native / "width.h").write_text("#define WIDTH 8\n")
    (native / "width.c").write_text(
        '#include "width.h"\n#define NAME_OF(level) width_##level\n#define NAME(level) NAME_OF(level)\n'
        '__attribute__((visibility("default"))) int NAME(LEVEL)(void) { return WIDTH; }\n'
    )
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def hook(root: Path, version: str = "standard") -> tuple[list[str], dict[str, object]]:
    """Run the hook as hatchling does; return its requirements and what it adds to the build."""
    made = kernels.KernelsHook(str(root), {}, None, None, str(root), "wheel")
    data: dict[str, object] = {"force_include": {}}
    requirements = made.dependencies()
    made.initialize(version, data)
    return requirements, data


def test_examples_of_the_build_script_hold() -> None:
    assert doctest.testmod(kernels) == (0, 2)


# --- platforms --------------------------------------------------------------------------------------------------------


def test_every_wheel_platform_is_one_that_pip_knows() -> None:
    tags = pytest.importorskip("packaging.tags")
    known = {
        *tags.mac_platforms((15, 0), "arm64"),
        *tags.mac_platforms((15, 0), "x86_64"),
        *(f"manylinux{libc}_{machine}" for libc in ("_2_17", "2014") for machine in ("x86_64", "aarch64")),
        *(f"musllinux_1_2_{machine}" for machine in ("x86_64", "aarch64")),
        "win_amd64",
    }
    platforms = {name for platform in kernels.WHEELS.values() for name in platform.split(".")}
    assert platforms <= known
    assert len(kernels.WHEELS) == 7


@pytest.mark.parametrize(
    ("platform", "machine", "libc", "target"),
    [
        ("linux-x86_64", "x86_64", "glibc", "x86_64-linux-gnu.2.17"),
        ("linux-aarch64", "aarch64", "", "aarch64-linux-musl"),
        ("macosx-11.0-arm64", "arm64", "", "aarch64-macos.11.0"),
        ("macosx-10.13-universal2", "x86_64", "", "x86_64-macos.10.13"),
        ("win-amd64", "AMD64", "", "x86_64-windows-gnu"),
        ("linux-riscv64", "riscv64", "glibc", None),
    ],
)
def test_target_of_the_interpreter(
    platform: str, machine: str, libc: str, target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels.sysconfig, "get_platform", lambda: platform)
    monkeypatch.setattr(kernels.platform, "machine", lambda: machine)
    monkeypatch.setattr(kernels.platform, "libc_ver", lambda: (libc, ""))
    assert kernels.host_target() == target


def test_unknown_target_is_refused_with_the_known_ones() -> None:
    with pytest.raises(kernels.BuildError, match=r"'sparc-linux'; expected one of x86_64-linux-gnu\.2\.17, aarch64"):
        kernels.resolve_target("sparc-linux")


# --- flags ------------------------------------------------------------------------------------------------------------


def compiler(system: str, machine: str, version: str = "cc 12") -> object:
    return kernels.Compiler(("cc",), version, system, machine, "any")


def test_flags_keep_ieee_arithmetic() -> None:
    command = kernels.compile_command(compiler("linux", "x86_64"), ("-mavx2",))
    assert "-fPIC" in command and "-mavx2" in command
    assert not {"-ffast-math", "-Ofast", "-march=native"} & set(command)


def test_flags_of_systems_and_compilers_differ() -> None:
    baseline = kernels.LEVELS["x86_64"]["baseline"]
    assert "-march=x86_64" in kernels.compile_command(compiler("linux", "x86_64", "zig 0.15"), baseline)
    assert "-march=x86-64" in kernels.compile_command(compiler("linux", "x86_64"), baseline)
    assert "-fPIC" not in kernels.compile_command(compiler("windows", "x86_64"), ())
    library = Path("_kernels.dylib")
    assert "-Wl,-install_name,@rpath/_kernels.dylib" in kernels.link_command(compiler("macos", "aarch64"), [], library)


# --- the choice of a compiler -----------------------------------------------------------------------------------------


@needs_compiler
def test_cc_goes_before_what_is_on_the_path(tmp_path: Path) -> None:
    found = kernels.system_compiler()
    mine = script(tmp_path / "mine", f'exec {found.command[0]} "$@"')
    assert kernels.system_compiler({**os.environ, "CC": f"{mine} -DX=1"}).command[:2] == (str(mine), "-DX=1")


@pytest.mark.parametrize("answer", ["exit 1", ":", "echo cc 1.0", "[ $# != 1 ] || echo cc 1.0"])
def test_compiler_that_fails_or_makes_nothing_is_not_usable(answer: str, tmp_path: Path) -> None:
    assert kernels.system_compiler({"CC": str(script(tmp_path / "broken", answer))}) is None


def test_ziglang_is_required_only_without_compiler_and_library(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert kernels.needs_zig(tree)
    kernels.in_tree(tree).write_bytes(b"..." + kernels.signature(tree).encode() + b"\0...")
    assert not kernels.needs_zig(tree)
    (tree / kernels.NATIVE / "width.h").write_text("#define WIDTH 4\n")
    assert kernels.needs_zig(tree)
    monkeypatch.setenv("ODDSMITH_PURE", "1")
    assert not kernels.needs_zig(tree)


def test_target_requires_ziglang(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDSMITH_TARGET", "aarch64-linux-musl")
    assert kernels.needs_zig(tree)


def test_without_any_compiler_the_build_stops_with_a_sentence(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit):
        hook(tree)
    printed = "".join(capsys.readouterr())
    assert "No usable C compiler" in printed and "ODDSMITH_PURE=1" in printed


def test_pure_build_adds_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODDSMITH_PURE", "1")
    assert hook(tree) == ([], {"force_include": {}})


# --- the library ------------------------------------------------------------------------------------------------------


@needs_compiler
def test_hook_names_the_platform_and_compiles_every_level(tree: Path) -> None:
    requirements, data = hook(tree)
    assert requirements == []
    assert data["tag"] == f"py3-none-{kernels.host_wheel_platform()}" and data["pure_python"] is False
    ((library, place),) = data["force_include"].items()  # type: ignore[attr-defined]
    assert Path(place).parent == Path("oddsmith", "kernels", "native")
    assert not kernels.in_tree(tree).exists()
    loaded = ctypes.CDLL(library)
    signature = kernels.signature(tree).encode()
    assert (ctypes.c_char * len(signature)).in_dll(loaded, "oddsmith_sources").value == signature
    levels = kernels.LEVELS.get(kernels.host()[1], kernels.BASELINE)
    assert [loaded[f"width_{level}"]() for level in levels] == [8] * len(levels)


@needs_compiler
def test_only_what_changed_is_compiled_again(tree: Path) -> None:
    def build() -> dict[str, int]:
        library = kernels.build_library(kernels.system_compiler(), tree)
        return {
            path.name: path.stat().st_mtime_ns
            for path in library.parent.iterdir()
            if path.suffix in (".o", library.suffix)
        }

    first = build()
    assert build() == first
    source = tree / kernels.NATIVE / "width.c"
    source.write_text(source.read_text() + "\n/* another */\n")
    second = build()
    assert {name for name in first if second[name] == first[name]} == {"levels.o"}
    (tree / kernels.NATIVE / "width.h").write_text("#define WIDTH 4\n")
    third = build()
    assert all(third[name] > second[name] for name in second)


@needs_compiler
def test_source_that_does_not_compile_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / kernels.NATIVE / "width.c").write_text("int f(void) { return undeclared_name; }\n")
    with pytest.raises(SystemExit):
        hook(tree)
    printed = "".join(capsys.readouterr())
    assert "undeclared_name" in printed and "Try another compiler" in printed


@needs_compiler
def test_editable_build_puts_the_library_into_the_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, data = hook(tree, "editable")
    assert data == {"force_include": {}}
    assert kernels.is_current(kernels.in_tree(tree), tree)
    monkeypatch.setenv("ODDSMITH_PURE", "1")
    hook(tree, "editable")
    assert not kernels.in_tree(tree).exists()


def test_library_in_the_tree_knows_the_levels_of_this_machine() -> None:
    library = kernels.in_tree(ROOT)
    if not library.exists():
        pytest.skip("no library in the source tree: the reference kernels serve")
    levels = ctypes.CDLL(str(library)).oddsmith_levels()
    assert levels in (1, 3, 7)
    if Path("/proc/cpuinfo").exists() and kernels.host()[1] == "x86_64":
        flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
        assert bool(levels & 2) == ({"avx2", "fma", "f16c", "bmi2"} <= flags)
        assert bool(levels & 4) == ({"avx2", "avx512f", "avx512dq", "avx512vl", "avx512bw"} <= flags)


def test_library_in_the_tree_was_compiled_from_the_sources_in_the_tree() -> None:
    library = kernels.in_tree(ROOT)
    if not library.exists():
        pytest.skip("no library in the source tree: the reference kernels serve")
    assert kernels.is_current(library, ROOT), "The kernels are older than their sources: run `make kernels`."


@needs_compiler
def test_stale_library_is_refused_with_a_sentence(tree: Path) -> None:
    """Newer than its sources, too, where these have another size: it may be that of another checkout.

    In a wheel there are no sources, and sources that are touched but equal are no reason either.
    """
    _, library = hook(tree, "editable"), kernels.in_tree(tree)
    header = tree / kernels.NATIVE / "width.h"

    def load_library(width: int, seconds: int) -> None:
        header.write_text(f"#define WIDTH {width}\n")
        os.utime(header, (0, library.stat().st_mtime + seconds))
        native._library.cache_clear()
        assert native._library(library) is not None

    native._library.cache_clear()
    try:
        load_library(8, -1)
        load_library(8, +1)
        for width, seconds in ((4, +1), (16, -1)):
            with pytest.raises(ImportError, match=r"compiled from other sources.*Run `make kernels`"):
                load_library(width, seconds)
        header.write_text("#define WIDTH 4\n")
        hook(tree, "editable")
        load_library(4, -1)
        for source in (tree / kernels.NATIVE).glob("*.[ch]"):
            source.unlink()
        native._library.cache_clear()
        assert native._library(library) is not None
    finally:
        native._library.cache_clear()


def test_equal_library_becomes_newer_than_its_sources(tree: Path) -> None:
    place = kernels.in_tree(tree)
    for path in (place, tree / place.name):
        path.write_bytes(b"the same")
    os.utime(place, (0, 0))
    kernels.install_library(tree / place.name, tree)
    assert place.stat().st_mtime >= (tree / kernels.NATIVE / "width.h").stat().st_mtime


def test_pure_wheel_holds_neither_library_nor_sources_in_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hatchling.builders.wheel import WheelBuilder

    monkeypatch.setenv("ODDSMITH_PURE", "1")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    assert wheel.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "oddsmith/kernels/__init__.py" in names
    assert not [name for name in names if "_kernels." in name or name.endswith((".c", ".h"))]


def test_sdist_holds_the_sources_and_the_hook_but_no_library(tmp_path: Path) -> None:
    import tarfile

    from hatchling.builders.sdist import SdistBuilder

    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / kernels.NATIVE).glob("*.[ch]")}
    assert sources and sources | {"build_kernels.py"} <= names
    assert not [name for name in names if "_kernels." in name and name != "build_kernels.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="an open library cannot be replaced there")
def test_loaded_library_survives_its_replacement(tree: Path) -> None:
    place = kernels.in_tree(tree)
    place.write_bytes(b"old")
    before = place.stat().st_ino
    fresh = tree / place.name
    fresh.write_bytes(b"new")
    with place.open("rb") as held:
        kernels.install_library(fresh, tree)
        assert held.read() == b"old"
    assert place.read_bytes() == b"new" and place.stat().st_ino != before
