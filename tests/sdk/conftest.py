"""A machine of its own for agents in this process: folders, and a model on loopback."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli import Agent
from tests.model.server import Reply, Server

MODEL = "openai/mock-model"


class Machine:
    """Folders, a scripted model, and agents that use both."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.work, self.state, self.home = folder / "work", folder / "state", folder / "home"
        self.config = folder / "config"
        for place in (self.work, self.home, self.config):
            place.mkdir()
        self.server = server

    def script(self, *replies: Reply) -> None:
        """What the model answers next, in this order."""
        self.server.add(*replies)

    def options(self, **options: Any) -> dict[str, Any]:
        """Options of an agent on this machine."""
        return {"cwd": self.work, "model": MODEL, "state": self.state, **options}

    def agent(self, **options: Any) -> Agent:
        """An agent on this machine."""
        return Agent(**self.options(**options))

    def system(self, request: int = -1) -> str:
        """The system prompt of a request."""
        return str(self.server.requests[request].body["messages"][0]["content"])

    def tools(self, request: int = -1) -> list[str]:
        """The names of the tools that a request offers."""
        return [each["function"]["name"] for each in self.server.requests[request].body.get("tools", ())]

    def prompts(self, request: int = -1) -> list[str]:
        """The last lines of the user's messages in a request."""
        sent = self.server.requests[request].body["messages"]
        return [str(each["content"]).rpartition("\n")[2] for each in sent if each["role"] == "user"]


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    async with Server() as server:
        it = Machine(tmp_path, server)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("HOME", str(it.home))
        monkeypatch.setenv("AGENT_CONFIG_DIR", str(it.config))
        monkeypatch.setenv("AGENT_STATE_DIR", str(tmp_path / "other-state"))
        monkeypatch.chdir(it.home)
        yield it
        assert [each.complaint for each in server.requests if each.complaint] == []
