"""A client for an address, and how a call through it ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_cli.config.schema import Timeouts
from agent_cli.model.assemble import Assembler
from agent_cli.model.http_model import NativeModel
from agent_cli.model.types.base import Answer, ModelError, ModelInfo, ModelRequest
from agent_cli.model.types.provider_table import Route
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.protocol.messages import UserMessage

ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),))
VARIABLES = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)  # fmt: skip


def clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the machine of the test has set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@asynccontextmanager
async def client(url: str, timeouts: Timeouts | None = None, **fields: object) -> AsyncIterator[NativeModel]:
    """A client of the server at a base URL."""
    route = Route(
        name="openai/mock", provider="openai", model="mock", wire="chat_completions", base_url=url,
        timeouts=timeouts or Timeouts(), **fields,
    )  # fmt: skip
    model = NativeModel(route, ModelInfo("openai/mock"), ChatDialect(route))
    try:
        yield model
    finally:
        await model.aclose()


async def answer(url: str, timeouts: Timeouts | None = None, **fields: object) -> Answer:
    """What the server at a base URL answers."""
    assembler = Assembler()
    async with client(url, timeouts, **fields) as model:
        async for event in model.stream(ASK):
            assembler.feed(event)
    return assembler.answer()


async def failure(url: str, timeouts: Timeouts | None = None, **fields: object) -> ModelError:
    """How a call to a base URL fails."""
    with pytest.raises(ModelError) as caught:
        await answer(url, timeouts, **fields)
    return caught.value
