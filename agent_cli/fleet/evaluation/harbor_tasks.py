"""Read tasks in Harbor's folder format, and suites of them. There are no containers: a task starts from
`environment/workspace` (or `environment`, if that does not exist), and images are not built. `tests/` is laid over
the tree once the agent's processes are gone, and the reward decides, as in Harbor."""

import hashlib
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.protocol.stop_reason import UsageError

from ..input.freeze import check_task
from ..task import OverlayFile, Task, is_task_id

LAID = ".harbor"
"""Folder in the tree that contains the tests while they run; an agent that writes into it has tampered."""
_SCRIPTS = {"oracle": "solution", "wrong": "wrong"}
MODELS = (*_SCRIPTS, "nop")
"""Model names that stand for a script of the task, or for doing nothing."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST = 16 * 1024 * 1024
"""Maximum size of a test file in bytes."""


class SuiteError(UsageError):
    """A suite cannot be read; the text says where and why."""


class Suite(msgspec.Struct, frozen=True):
    """The tasks of a suite."""

    path: str
    tasks: tuple[Task, ...]
    skipped: dict[str, str]
    """Tasks that cannot run here: reason by id."""
    notes: tuple[str, ...]
    """Notes about ignored parts."""


def read_suite(path: Path, model: str, found: Callable[[str], object]) -> Suite:
    """Read a task, or a folder of tasks.

    Args:
        path: a folder with a `task.toml`, or a folder of such folders.
        model: a model, or one of `MODELS`.
        found: returns a true value for the name of an installed program.

    Raises:
        SuiteError, InputError: there is no task, or a task is invalid.
    """
    folders = (
        [path] if (path / "task.toml").is_file() else sorted(each.parent for each in path.glob("*/task.toml"))
    )
    if not folders:
        raise SuiteError(f"{path}: no task.toml here or in the folders below it")
    tasks, skipped, notes = [], {}, []
    for folder in folders:
        described = _described(folder)
        try:
            task = _task(folder, described, model)
        except OSError as error:
            raise SuiteError(f"{error.filename or folder}: {error.strerror or error}") from error
        tasks.append(task)
        notes += [f"{task.id}: {each}" for each in _ignored(folder, described)]
        if why := _cannot_run(folder, described, model, found):
            skipped[task.id] = why
        else:
            check_task(task, str(folder))
    return Suite(str(path.resolve()), tuple(tasks), skipped, tuple(notes))


def checksum(folder: Path) -> str:
    """Return the SHA-256 of everything that a task gives to an agent and checks; its solutions are excluded."""
    total = hashlib.sha256()
    for path in _files(folder):
        relative = path.relative_to(folder)
        if relative.parts[0] not in _SCRIPTS.values():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{relative.as_posix()}\0{_is_executable(path)}\0{content}\n".encode())
    return total.hexdigest()


def _described(folder: Path) -> dict[str, Any]:
    if not is_task_id(folder.resolve().name):
        raise SuiteError(f"{folder}: the name of a task has letters, digits, '.', '_' and '-' only, at most 100")
    for part in ("environment", "tests/test.sh"):
        if not (folder / part).exists():
            raise SuiteError(f"{folder}: no {part}")
    try:
        return tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SuiteError(f"{folder / 'task.toml'}: {error}") from error


def _task(folder: Path, described: Mapping[str, Any], model: str) -> Task:
    metadata, digest = _part(described, "metadata"), checksum(folder)
    verifier, environment = _part(described, "verifier"), _part(described, "environment")
    tests = tuple(_overlay(folder / "tests", f"{LAID}/tests"))
    script = verify_script(_workdir(environment), _variables(folder, verifier), [file.path for file in tests])
    command = command_of(folder, model)
    return Task(
        id=folder.resolve().name,
        prompt=_instruction(folder),
        repo=str(_workspace(folder).resolve()),
        model="" if command else model,
        command=command,
        timeout_s=_seconds(folder, described, "agent"),
        verify=f"bash {LAID}/verify.sh # task {digest}",
        verify_timeout_s=_seconds(folder, described, "verifier") or 600.0,
        verify_files=(*tests, OverlayFile(f"{LAID}/verify.sh", script.encode(), True)),
        verify_protect=(f"{LAID}/**", *_texts(metadata.get("protect"))),
        pick="all",
        deps="none",
        network="host" if environment.get("network_mode") == "public" else "own",
        env=_variables(folder, environment),
        tags={name: value for name, value in metadata.items() if isinstance(value, str)},
        meta={
            "checksum": digest,
            "name": _part(described, "task").get("name", ""),
            "folder": str(folder.resolve()),
        },
    )


def _instruction(folder: Path) -> str:
    path = folder / "instruction.md"
    try:
        return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    except UnicodeDecodeError as error:
        raise SuiteError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def command_of(folder: Path, model: str) -> str:
    """Return the command that runs in place of the agent; empty for a model. The command changes with the script,
    so that an edited solution is run again."""
    if model == "nop":
        return "true"
    if model not in _SCRIPTS:
        return ""
    here = (folder / _SCRIPTS[model]).resolve()
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _files(here))).hexdigest()[:16]
    place = shlex.quote(str(here))
    return f"SOLUTION_DIR={place} bash {place}/solve.sh # {digest}"


def verify_script(workdir: str, env: Mapping[str, str], files: Sequence[str]) -> str:
    """Return the script that runs `tests/test.sh` and turns its reward into an exit code: 0 for a reward of 1 or
    more, 1 for less, 126 without a reward, which says nothing about the task.

    If bubblewrap works, the tests are in `/tests`, the reward in `/logs/verifier` and the tree in the task's
    working folder, as in a container; `TESTS_DIR` and `VERIFIER_DIR` always name the folders. Only the task's own
    `files` are used: the tests could import a file that the agent put beside them.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(env.items()))
    script = (Path(__file__).parent / "verify.sh").read_text(encoding="utf-8")
    return (
        script.replace("@WORKDIR@", shlex.quote(workdir))
        .replace("@EXPORTS@\n", exports)
        .replace("@FILES@", "\n".join(files))
    )


def _workspace(folder: Path) -> Path:
    inner = folder / "environment" / "workspace"
    return inner if inner.is_dir() else folder / "environment"


def _workdir(environment: Mapping[str, Any]) -> str:
    given = environment.get("workdir")
    return given if isinstance(given, str) else "/app"


def _ignored(folder: Path, described: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes about parts of a task that are not supported."""
    environment = _part(described, "environment")
    for name in ("Dockerfile", "docker-compose.yaml"):
        if (folder / "environment" / name).is_file():
            yield f"environment/{name} is ignored: there is no container"
    for name in ("docker_image", "mcp_servers", "skills_dir", "healthcheck", "gpus"):
        if environment.get(name):
            yield f"[environment] {name} is ignored"
    for name, value in _part(environment, "env").items():
        if "${" in str(value):
            yield f"[environment] env.{name} is ignored: values from the host are not passed on"


def _cannot_run(folder: Path, described: Mapping[str, Any], model: str, found: Callable[[str], object]) -> str:
    """Return why a task cannot be run here; empty if it can."""
    if described.get("steps"):
        return "it has several steps"
    if not (folder / "instruction.md").is_file():
        return "it has no instruction.md"
    if not _instruction(folder):
        return "its instruction.md is empty"
    if model in _SCRIPTS and not (folder / _SCRIPTS[model] / "solve.sh").is_file():
        return f"it has no {_SCRIPTS[model]}/solve.sh"
    missing = [name for name in _texts(_part(described, "metadata").get("requires")) if not found(name)]
    return f"{' and '.join(missing)} not found" if missing else ""


def _overlay(folder: Path, under: str) -> Iterator[OverlayFile]:
    for path in _files(folder):
        if path.stat().st_size > _LARGEST:
            raise SuiteError(f"{path}: larger than {_LARGEST // 2**20} MB")
        relative = path.relative_to(folder).as_posix()
        if "\n" in relative:
            raise SuiteError(f"{folder}: the name of a file has a line feed")
        yield OverlayFile(f"{under}/{relative}", path.read_bytes(), _is_executable(path) or path.suffix == ".sh")


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder in a fixed order, without symbolic links."""
    parts = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in parts if "__pycache__" not in path.parts)


def _is_executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _seconds(folder: Path, described: Mapping[str, Any], part: str) -> float | None:
    given = _part(described, part).get("timeout_sec")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e9:
        raise SuiteError(f"{folder / 'task.toml'}: [{part}] timeout_sec is not a number of seconds: {given!r}")
    return float(given)


def _part(described: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = described.get(name, {})
    return part if isinstance(part, dict) else {}


def _texts(given: object) -> Sequence[str]:
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _variables(folder: Path, part: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a part whose values do not refer to the host's."""
    variables = {name: str(value) for name, value in _part(part, "env").items() if "${" not in str(value)}
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise SuiteError(f"{folder / 'task.toml'}: {name!r} in `env` is not a valid variable name")
    return variables
