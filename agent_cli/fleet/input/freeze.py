"""Check entries and freeze them: every path absolute, every commit a full hash, every file read. Nothing starts
before all of them are valid."""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from agent_cli.config.layer import validation_message
from agent_cli.fs.which import RunProgram
from agent_cli.protocol.actions import Mode, SandboxLevel
from agent_cli.sandbox.process.running import ProcessError
from agent_cli.workspace.git.repository import git_folder

from ..task import Dependencies, Network, OverlayFile, Pick, Source, Task, is_task_id, is_url
from .entries import Entry, InputError

_ALIASES = {"instance_id": "id", "problem_statement": "prompt", "base_commit": "ref"}
_FREE = {"prompt_file", "verify_files"}
_INTERNAL = {"command"}
_MOST_PROMPT = 10_000_000
_MOST_OVERLAY = 50_000_000
_NAMES = frozenset(Task.__struct_fields__) - _INTERNAL
_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "sandbox": get_args(SandboxLevel),
    "pick": get_args(Pick),
    "deps": get_args(Dependencies),
    "network": get_args(Network),
}
_SECRET = re.compile(r"(?i)(^|_)(api_?keys?|token|secret|password)$")


class Freezer:
    """Freezes the tasks of a batch."""

    def __init__(
        self, defaults: Mapping[str, Any], run: RunProgram, known: Mapping[str, Source] | None = None
    ) -> None:
        """`defaults` are values of the command line for tasks that do not set them. Tasks in `known` keep their
        commits while they name the same repository and ref."""
        self._defaults = dict(defaults)
        self._run = run
        self._known = known or {}
        self._commits: dict[tuple[str, str], str] = {}
        self.sources: dict[str, Source] = {}
        """By task, what it was frozen to."""
        self.places: dict[str, str] = {}
        """`FILE:LINE` of each task."""
        self.laid: set[str] = set()
        """The files that were read for `verify_files`."""

    async def freeze(self, entries: Iterable[Entry]) -> tuple[Task, ...]:
        """Return the frozen tasks.

        Raises:
            InputError: a task is invalid; the text reports up to twenty of them.
        """
        tasks: dict[str, Task] = {}
        wrong: list[str] = []
        for entry in entries:
            try:
                task = await self._frozen(entry)
                if (other := tasks.get(task.id.lower())) is not None:
                    raise InputError(f"{entry.place}: the id {task.id} is taken already (by {other.id})")
                tasks[task.id.lower()] = task
                self.places[task.id] = entry.place
            except InputError as error:
                wrong.append(str(error))
        if wrong:
            more = f"\nand {len(wrong) - 20} more" if len(wrong) > 20 else ""
            raise InputError("\n".join(wrong[:20]) + more)
        if not tasks:
            raise InputError("there are no tasks")
        return tuple(tasks.values())

    async def _frozen(self, entry: Entry) -> Task:
        values = {_ALIASES.get(key, key): value for key, value in entry.values.items()}
        if unknown := sorted(set(values) - _NAMES - _FREE):
            raise InputError(f"{entry.place}: {_unknown(unknown[0])}")
        values = {**self._defaults, **values}
        try:
            values["prompt"] = _prompt(values, entry)
            files = values.pop("verify_files", {})
            overlay = _overlay(files, entry)
            self.laid.update(os.path.realpath(entry.path_of(each)) for each in files.values())
            task = msgspec.convert(values, Task)
        except msgspec.ValidationError as error:
            raise InputError(f"{entry.place}: {_plain(error, values)}") from error
        check_task(task, entry.place)
        _check_secrets(task, entry.place)
        repo, ref = await self._source(task, entry)
        self.sources[task.id] = Source(repo, task.ref or "HEAD", ref)
        return msgspec.structs.replace(task, repo=repo, ref=ref, verify_files=overlay)

    async def _source(self, task: Task, entry: Entry) -> tuple[str, str]:
        """Return the repository or folder of a task, and the commit in it."""
        if is_url(task.repo):
            if not re.fullmatch(r"[0-9a-f]{40}", task.ref):
                raise InputError(f"{entry.place}: `ref` of a repository by URL must be a full commit hash")
            return task.repo, task.ref
        path = Path(os.path.realpath(entry.path_of(task.repo) if task.repo else Path.cwd()))
        if not path.is_dir():
            raise InputError(f"{entry.place}: `repo` {path} is not a directory")
        try:
            place = git_folder(path)
        except OSError as error:
            raise InputError(f"{entry.place}: the repository {path} cannot be read: {error}") from error
        if place is None or os.path.realpath(place.top) != str(path):
            if task.ref:
                raise InputError(f"{entry.place}: `ref` is given, but {path} is not the top of a git repository")
            if place is not None and not task.repo:
                return await self._at_commit(Path(os.path.realpath(place.top)), task, entry)
            return str(path), ""
        return await self._at_commit(path, task, entry)

    async def _at_commit(self, path: Path, task: Task, entry: Entry) -> tuple[str, str]:
        ref, known = task.ref or "HEAD", self._known.get(task.id)
        if known is not None and (known.repo, known.ref) == (str(path), ref):
            ref = known.commit
        return (str(path), await self._commit(path, ref, entry)) if ref else (str(path), "")

    async def _commit(self, path: Path, ref: str, entry: Entry) -> str:
        key = (str(path), ref)
        if key not in self._commits:
            words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            try:
                done = await self._run(["git", *words], cwd=path)
            except (ProcessError, OSError, TimeoutError) as error:
                raise InputError(f"{entry.place}: {error}") from error
            if done.exit_code and (said := " ".join(done.stderr.decode("utf-8", "replace").split())):
                # A name that is no commit is refused in silence.
                raise InputError(f"{entry.place}: git cannot read {path}: {said.removeprefix('fatal: ')}")
            self._commits[key] = done.stdout.decode("utf-8", "replace").strip() if done.exit_code == 0 else ""
        if not self._commits[key]:
            raise InputError(f"{entry.place}: `{ref}` names no commit in {path}")
        return self._commits[key]


def _prompt(values: dict[str, Any], entry: Entry) -> object:
    file = values.pop("prompt_file", None)
    if file is None:
        if "prompt" not in values:
            raise InputError(f"{entry.place}: `prompt` is missing; `prompt_file` names a file with it")
        return values["prompt"]
    if "prompt" in values:
        raise InputError(f"{entry.place}: give `prompt` or `prompt_file`, not both")
    data = _file(str(file), entry, "prompt_file", _MOST_PROMPT)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{entry.place}: `prompt_file` {file} is not UTF-8 text") from error


def _overlay(given: object, entry: Entry) -> tuple[OverlayFile, ...]:
    """Read the files that are laid over the tree: a mapping from paths in the tree to source files."""
    if not isinstance(given, dict):
        raise InputError(f"{entry.place}: `verify_files` must be an object: path in the tree → file to take")
    found = []
    for target, source in given.items():
        name = os.path.normpath(str(target))
        if os.path.isabs(name) or name.split("/")[0] in ("..", ".git", "."):
            raise InputError(f"{entry.place}: `verify_files` names {target}, which is not a path in the tree")
        data = _file(str(source), entry, "verify_files", _MOST_OVERLAY)
        found.append(OverlayFile(name, data, os.access(entry.path_of(source), os.X_OK)))
    return tuple(found)


def _file(name: str, entry: Entry, key: str, most: int) -> bytes:
    try:
        with entry.path_of(name).open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{entry.place}: `{key}` {name}: {getattr(error, 'strerror', error)}") from error
    if len(data) > most:
        raise InputError(f"{entry.place}: `{key}` {name}: larger than {most:,} bytes")
    return data


def check_task(task: Task, place: str) -> None:
    """Check the values of a task from any source. Its id becomes part of paths.

    Raises:
        InputError: one is invalid.
    """
    if not is_task_id(task.id):
        raise InputError(
            f"{place}: the id {task.id[:100]!r} must be 1 to 100 letters, digits, dots, hyphens and underscores"
        )
    if not task.prompt.strip():
        raise InputError(f"{place}: the prompt is empty")
    if not 1 <= task.attempts <= 100:
        raise InputError(f"{place}: `attempts` is {task.attempts}; it must be between 1 and 100")
    numbers = (
        ("max_cost", task.max_cost), ("max_turns", task.max_turns), ("timeout_s", task.timeout_s),
        ("setup_timeout_s", task.setup_timeout_s), ("verify_timeout_s", task.verify_timeout_s),
    )  # fmt: skip
    for name, value in numbers:
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"{place}: `{name}` is {value:g}; it must be more than 0")
    for name in task.env:
        if not name or "=" in name:
            raise InputError(f"{place}: {name!r} in `env` is not a valid variable name")
    _check_text(task, place)


def _check_secrets(task: Task, place: str) -> None:
    for name in filter(_SECRET.search, task.env):
        raise InputError(f"{place}: `env` must hold no secrets: set {name} yourself and name it in `pass_env`")


def _check_text(task: Task, place: str) -> None:
    """Check that all texts of a task can be encoded and passed to programs."""
    try:
        msgspec.json.encode(task)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{place}: {error.object[error.start]!r} is half a character; write it as UTF-8"
        ) from error
    if b"\\u0000" in msgspec.json.encode(msgspec.structs.replace(task, prompt="", tags={}, meta={})):
        raise InputError(f"{place}: a value holds a NUL character")


def _unknown(key: str) -> str:
    if key in _INTERNAL:
        return f"`{key}` cannot be given in a task file"
    near = difflib.get_close_matches(key, [*_NAMES, *_FREE], 1)
    hint = f"; did you mean `{near[0]}`?" if near else ": `meta` takes keys of your own"
    return f"unknown key `{key}`{hint}"


def _plain(error: msgspec.ValidationError, values: Mapping[str, Any]) -> str:
    """Return the message of msgspec with the key first, and with what to write instead."""
    text, _, path = str(error).partition(" - at `$.")
    if missing := re.search(r"missing required field `(\w+)`", text):
        return f"`{missing[1]}` is missing"
    key = path.rstrip("`")
    if not key:
        return text
    what = validation_message(text, _CHOICES.get(key, ()), values.get(key))
    return f"`{key.removesuffix('[...]')}`: {what}"
