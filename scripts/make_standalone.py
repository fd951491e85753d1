"""Pack the agent with a Python and a C library of its own into one archive, for containers that have nothing.

`make standalone` writes `dist/agent-….tar.xz` for this machine's system and processor; with the name of a folder
the files are laid out there, and nothing is packed. It needs a C compiler, binutils and `ldd`. LiteLLM and the
grammars of `repo_map` are left out: they are four fifths of an installation.
"""

import compileall
import fnmatch
import importlib.metadata
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

from agent_cli import __version__

ROOT = Path(__file__).resolve().parent.parent
NAME = f"agent-{__version__}-{platform.system().lower()}-{platform.machine()}"
LEFT_OUT = ("litellm", "tree-sitter", "tree-sitter-*")
NOT_OF_PYTHON = (
    "site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo",
    "turtle.py", "lib2to3", "ensurepip", "distutils", "pydoc_data", "config-*", "_tkinter.*", "nis.*",
    "ossaudiodev.*", "_curses*", "readline.*", "_test*", "_ctypes_test.*", "_xx*", "xxlimited*", "libpython*",
)  # fmt: skip
"""Parts of the standard library that the agent does not use; some bring libraries of the system along."""
NOT_OF_PACKAGES = ("*.pyc", "*.pyi", "*.h", "*.c")
START = "import sys\n\nfrom agent_cli.__main__ import main\n\nsys.exit(main())\n"


def build(folder: Path) -> None:
    """Lay out everything in an empty folder."""
    library = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = library / "site-packages"
    for name in ("bin", "libexec"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*NOT_OF_PYTHON))
    shutil.copy(Path(sys.executable).resolve(), folder / "libexec" / "python3")
    (library / "dist-packages").symlink_to("site-packages")  # where the Python of Debian looks
    copy_packages(packages)
    unpack_agent(packages)
    shutil.copy(Path(sysconfig.get_path("scripts")) / "rg", folder / "bin")
    (folder / "libexec" / "agent").write_text(START, encoding="utf-8")
    copy_libraries(folder)
    strip(folder, library)
    compile_launcher(folder / "bin")


def copy_packages(packages: Path) -> None:
    """Copy what the agent depends on, as it is installed here."""
    for package in dependencies("agent-cli"):
        for file in package.files or ():
            source = Path(str(package.locate_file(file)))
            is_inside = ".." not in file.parts and "__pycache__" not in file.parts
            if is_inside and source.is_file() and not matches(file.name, NOT_OF_PACKAGES):
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


def dependencies(name: str) -> Iterator[importlib.metadata.Distribution]:
    """Yield the installed packages that a package needs, and those that they need."""
    seen, waiting = {name}, [name]
    while waiting:
        package = importlib.metadata.distribution(waiting.pop())
        if package.name != name:
            yield package
        for text in package.requires or ():
            needed = Requirement(text)
            key = re.sub(r"[-_.]+", "-", needed.name).lower()
            applies = needed.marker is None or needed.marker.evaluate({"extra": ""})
            if applies and key not in seen and not matches(key, LEFT_OUT):
                seen.add(key)
                waiting.append(key)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of some globs."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def unpack_agent(packages: Path) -> None:
    """Build the wheel of this checkout and unpack it."""
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)


def copy_libraries(folder: Path) -> None:
    """Copy the libraries of the system that programs and extension modules are linked to, and the loader."""
    binaries = [folder / "libexec" / "python3", *folder.rglob("*.so"), *folder.rglob("*.so.*")]
    found: dict[str, Path] = {}
    for line in run("ldd", str(Path(sys.executable).resolve()), *map(str, binaries)).splitlines():
        if match := re.match(r"\s+(?:(\S+) => )?(/\S+) \(0x", line):
            path = Path(match[2])
            if not path.is_relative_to(folder):
                found["ld.so" if match[1] is None else match[1]] = path
    for name, path in found.items():
        shutil.copy(path, folder / "lib" / name)


def strip(folder: Path, library: Path) -> None:
    """Remove the symbols for debuggers from Python's own binaries: wheels come without."""
    run(
        "strip",
        "--strip-unneeded",
        *map(str, [*(folder / "lib").glob("*.so*"), *library.glob("lib-dynload/*.so")]),
    )


def compile_launcher(folder: Path) -> None:
    """Compile the program that starts Python through the loader of the archive."""
    source = ROOT / "scripts" / "standalone" / "launcher.c"
    run("cc", "-static", "-Os", "-s", "-o", str(folder / "agent"), str(source))
    shutil.copy(folder / "agent", folder / "python3")


def compile_modules(folder: Path) -> None:
    """Compile all modules, for any time stamps and also where nobody can write."""
    compileall.compile_dir(
        folder / "lib", quiet=2, workers=0, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        stripdir=str(folder),
    )  # fmt: skip


def run(*argv: str) -> str:
    """Run a program in the checkout and return its output."""
    try:
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(f"{argv[0]} was not found; on Debian: apt install gcc libc6-dev binutils")
    if done.returncode:
        sys.exit(f"{argv[0]} failed:\n{done.stderr}{done.stdout}")
    return done.stdout


def pack() -> None:
    """Write the archive into `dist/` and print its size. With gzip it would be 15 MB larger."""
    archive = ROOT / "dist" / f"{NAME}.tar.xz"
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / NAME
        build(folder)
        compile_modules(folder)
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(folder, arcname=NAME, filter=of_nobody)
    print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size / 1e6:.1f} MB")


def of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who built the archive."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    build(Path(sys.argv[1])) if sys.argv[1:] else pack()
