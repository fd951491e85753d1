"""A task of a batch, frozen before anything starts."""

import hashlib
import re
from typing import Any, Literal

import msgspec

from agent_cli.protocol.actions import Mode, SandboxLevel

Pick = Literal["first_verified", "all", "smallest_diff"]
Dependencies = Literal["none", "bind", "reflink", "copy"]
Network = Literal["own", "host"]
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[^/\s:]+@[^/\s:]+:", re.IGNORECASE)


def is_task_id(text: str) -> bool:
    """Return True for a valid id. Ids become names of files, folders and branches."""
    return _ID.fullmatch(text) is not None and set(text) != {"."}


def is_url(repo: str) -> bool:
    """Return True if a repository is named by a URL, or as `user@host:path`."""
    return _URL.match(repo) is not None


class Source(msgspec.Struct, frozen=True):
    """Where the files of a task come from, since the batch was first frozen."""

    repo: str
    ref: str
    """As written."""
    commit: str
    """Empty if `repo` is a plain folder."""


class OverlayFile(msgspec.Struct, frozen=True):
    """A file that is laid over the tree before `verify` runs."""

    path: str
    """Relative to the top of the tree."""
    content: bytes
    executable: bool = False


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task. Omitted values are left to the configuration of `agent run`."""

    id: str
    """`[A-Za-z0-9._-]{1,100}`, unique regardless of case."""
    prompt: str
    repo: str = ""
    """Absolute path of a repository or a plain folder, or the URL of a repository."""
    ref: str = ""
    """Full hash of the commit; empty if `repo` is a plain folder."""
    model: str = ""
    effort: str = ""
    mode: Mode | Literal[""] = ""
    sandbox: SandboxLevel | Literal[""] = ""
    tools: str = ""
    config: dict[str, Any] = {}
    """Dotted configuration keys, as for `--set`."""
    max_cost: float | None = None
    """Limit for an attempt in US dollars; a budget reserves this amount."""
    max_turns: int | None = None
    timeout_s: float | None = None
    setup: str = ""
    """Shell command that runs in the tree before the agent."""
    setup_timeout_s: float = 600.0
    verify: str = ""
    """Shell command that decides whether the task is solved, run once the agent's processes are gone."""
    verify_timeout_s: float = 600.0
    verify_files: tuple[OverlayFile, ...] = ()
    verify_protect: tuple[str, ...] = ()
    """Globs of files that the agent must not change."""
    attempts: int = 1
    pick: Pick = "first_verified"
    command: str = ""
    """Shell command that runs in the tree in place of the agent: a known solution, or nothing."""
    schema: dict[str, Any] | None = None
    """JSON Schema that the answer must match."""
    copy: tuple[str, ...] = ()
    """Globs of untracked files to copy into the tree, in addition to those of `.worktreeinclude`."""
    deps: Dependencies = "bind"
    """Handling of the repository's dependency folders, such as `node_modules` and `.venv`."""
    network: Network = "own"
    """Network of `setup` and `verify`: isolated or the host's."""
    env: dict[str, str] = {}
    """Variables for the agent, `setup` and `verify`; no secrets."""
    pass_env: tuple[str, ...] = ()
    """Names of variables that `setup` and `verify` get from the environment."""
    tags: dict[str, str] = {}
    meta: dict[str, Any] = {}
    """Other contents of the task file; used only in the report."""

    def spec_hash(self, agent_version: str) -> str:
        """Return the SHA-256 of everything that can affect the result, with the minor version of the agent."""
        kept = msgspec.structs.replace(self, attempts=1, pick="first_verified", tags={}, meta={})
        minor = ".".join(agent_version.split(".")[:2])
        return hashlib.sha256(msgspec.json.encode((minor, kept), order="deterministic")).hexdigest()
