"""The house keeps its shape: who may import whom, where libraries live, how long a file may be, and what
is loaded before it is needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "agent_cli"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "demo_project" not in path.parts)

LONGEST_FILE = 600
LONGEST_FUNCTION = 60

MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "config": {"protocol"},
    "redaction": {"protocol"},
    "fs": set(),
    "sandbox": {"protocol", "redaction", "config"},
    "workspace": {"protocol", "redaction", "fs", "config"},
    "store": {"protocol", "redaction", "config"},
    "policy": {"protocol", "config"},
    "net": {"protocol", "config"},
    "model": {"protocol", "config", "net"},
    "tools": {"protocol", "redaction", "fs", "config", "sandbox", "workspace", "net"},
    "session": {"protocol", "redaction", "config", "sandbox"},
    "engine": {
        "protocol",
        "redaction",
        "fs",
        "config",
        "net",
        "sandbox",
        "workspace",
        "store",
        "policy",
        "model",
        "session",
        "tools",
    },
    "ui": {"protocol", "config"},
    "cli": {
        "protocol",
        "config",
        "net",
        "sandbox",
        "workspace",
        "store",
        "policy",
        "model",
        "tools",
        "redaction",
        "fs",
        "session",
        "engine",
        "ui",
    },
}

HOMES: dict[str, tuple[str, ...]] = {
    "rich": ("ui", "cli"),
    "prompt_toolkit": ("ui", "cli"),
    "typer": ("cli",),
    "yaml": ("config",),
    "litellm": ("model/litellm/model.py",),
    "httpx": ("model/transport/http.py", "net/fetch.py"),
    "subprocess": ("sandbox", "ui/repl/editor.py"),
    "platformdirs": ("config/dirs.py",),
    "PIL": ("tools/files/images.py",),
    "pypdf": ("workspace/documents/pdf_text.py",),
    "tree_sitter": ("workspace/symbols/parse.py",),
    "bs4": ("workspace/documents/html_text.py",),
    "markdown_it": ("store/export/html.py", "ui"),
}


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def imports(path: Path) -> list[tuple[str, str]]:
    """(module, kind) of each import: a room of ours, or a library's top-level name."""
    found: list[tuple[str, str]] = []
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name.split(".")[0], "library") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                top, _, rest = (node.module or "").partition(".")
                ours = top == "agent_cli"
                found.append((rest.split(".")[0], "room") if ours and rest else (top, "library"))
            elif node.level >= depth:
                found += [((node.module or alias.name).split(".")[0], "room") for alias in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_only_what_lies_below(path: Path) -> None:
    own = room(path)
    for name, kind in imports(path):
        if kind == "room" and name in MAY_IMPORT and own:
            assert name == own or name in MAY_IMPORT[own], f"{own} may not import {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_libraries_live_in_their_rooms(path: Path) -> None:
    place = str(path.relative_to(PACKAGE))
    for name, kind in imports(path):
        if kind == "library" and name in HOMES:
            assert any(place == home or place.startswith(f"{home}/") for home in HOMES[name]), f"{name} in {place}"
        assert name not in ("asyncio.subprocess",)


def test_protocol_needs_only_the_standard_library_and_msgspec() -> None:
    for path in (PACKAGE / "protocol").glob("*.py"):
        for name, kind in imports(path):
            if kind == "library":
                assert name == "msgspec" or name in sys.stdlib_module_names, f"{name} in {path.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


def test_public_names_are_documented() -> None:
    missing = []
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name != "__init__.py" or tree.body:
            assert ast.get_docstring(tree), f"{path} has no docstring"
        for node in tree.body:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if public and not node.name.startswith("_") and not ast.get_docstring(node):  # type: ignore[union-attr]
                missing.append(f"{path.relative_to(PACKAGE)}:{node.name}")  # type: ignore[union-attr]
    assert not missing, missing


HEAVY = {
    "litellm", "openai", "pydantic", "pygments", "markdown_it", "rich", "typer", "click", "jsonschema",
    "PIL", "pypdf", "tree_sitter", "bs4", "importlib.metadata", "importlib.resources", "httpx._main", "unittest", "sqlite3", "multiprocessing",
}  # fmt: skip


def loaded(code: str, *, env: dict[str, str] | None = None) -> set[str]:
    """Every module a fresh interpreter has after running some code."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROOT, env=env
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stderr.split("\n"))


def heavy(modules: set[str]) -> set[str]:
    return {name for name in modules if name in HEAVY or name.split(".")[0] in HEAVY}


PATHS: list[tuple[str, str, int, set[str]]] = [
    ("--version", "import sys; sys.argv = ['agent', '--version']\nimport agent_cli.__main__ as m\ntry: m.main()\nexcept SystemExit: pass", 80, {"asyncio", "msgspec"}),
    ("run", "import agent_cli.cli.main, agent_cli.cli.run, agent_cli.model.wire.chat.dialect", 392, {"prompt_toolkit", "httpx"}),
    ("repl", "import agent_cli.cli.main, agent_cli.cli.interactive", 592, {"httpx"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "most", "also"), PATHS, ids=[path[0] for path in PATHS])
def test_starting_loads_only_what_it_needs(name: str, code: str, most: int, also: set[str]) -> None:
    modules = loaded(code)
    assert not heavy(modules), heavy(modules)
    assert not {m for m in modules if m.split(".")[0] in also}
    assert len(modules) <= most, f"{len(modules)} modules"
