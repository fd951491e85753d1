"""How each coding agent is pointed at another server, by its documented settings."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from .startup import AGENT

_FLOOR = Path(__file__).with_name("peer_floor.py")
_LIMIT = "400"
"""Model calls, where a program has a limit."""


class Program(NamedTuple):
    """A program that can be measured: what is run in front of the task, its environment and its settings."""

    argv: list[str]
    env: dict[str, str]
    files: Mapping[str, str] = MappingProxyType({})
    """Settings, by their path below the home folder."""
    behind: tuple[str, ...] = ()
    """Options behind the task."""

    def prepare(self, folder: Path) -> dict[str, str]:
        """Write the settings; returns the whole environment."""
        (folder / "work").mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            path = folder / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (folder / "home").mkdir(exist_ok=True)
        shared = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8", "TERM": "dumb"}
        return shared | self.env


def floor(port: int) -> Program:
    """The bare loop in Python."""
    return Program([sys.executable, str(_FLOOR)], {"FLOOR": f"127.0.0.1:{port}"})


def agent(port: int, *options: str) -> Program:
    """This program."""
    env = {"OPENAI_BASE_URL": _url(port, "/v1"), "OPENAI_API_KEY": "none", "AGENT_MODEL": "openai/mock"}
    return Program([AGENT, "run", *options, "--max-turns", _LIMIT], env)


def codex(port: int) -> Program:
    """Codex: a provider of one's own in `config.toml`, which speaks Responses."""
    config = f"""model = "mock"
model_provider = "bench"
check_for_update_on_startup = false
[model_providers.bench]
name = "bench"
base_url = "{_url(port, "/v1")}"
env_key = "BENCH_KEY"
wire_api = "responses"
"""
    options = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return Program(["codex", *options], {"BENCH_KEY": "none"}, {".codex/config.toml": config})


def claude(port: int) -> Program:
    """Claude Code: variables; it appends `/v1/messages` itself."""
    env = {
        "ANTHROPIC_BASE_URL": _url(port),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Program(["claude", "-p"], env, behind=("--allowedTools", "Bash"))


def pi(port: int) -> Program:
    """pi: a provider in `models.json`, which speaks Chat Completions."""
    provider = {
        "baseUrl": _url(port, "/v1"), "api": "openai-completions", "apiKey": "none", "models": [{"id": "mock"}],
    }  # fmt: skip
    files = {".pi/agent/models.json": json.dumps({"providers": {"bench": provider}})}
    return Program(["pi", "-p", "--provider", "bench", "--model", "mock"], {"PI_OFFLINE": "1"}, files)


def gemini(port: int) -> Program:
    """Gemini CLI: variables; the folder is trusted, as it falls back to asking elsewhere."""
    env = {"GOOGLE_GEMINI_BASE_URL": _url(port), "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    files = {".gemini/settings.json": json.dumps(settings)}
    return Program(["gemini", "--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p"], env, files)


def opencode(port: int) -> Program:
    """opencode: a provider in its configuration, which speaks Chat Completions."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "bench",
        "options": {"baseURL": _url(port, "/v1"), "apiKey": "none"},
        "models": {"mock": {"name": "mock"}},
    }
    config = {"provider": {"bench": provider}, "model": "bench/mock", "autoupdate": False, "share": "disabled"}
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "true", "OPENCODE_DISABLE_MODELS_FETCH": "true"}
    files = {".config/opencode/opencode.json": json.dumps(config)}
    return Program(["opencode", "run"], env, files)


PEERS: dict[str, Callable[[int], Program]] = {
    "codex": codex,
    "claude": claude,
    "pi": pi,
    "gemini": gemini,
    "opencode": opencode,
}


def found() -> list[str]:
    """The peers that are installed."""
    return [name for name in PEERS if shutil.which(name)]


def _url(port: int, path: str = "") -> str:
    return f"http://127.0.0.1:{port}{path}"
