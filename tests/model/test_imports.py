"""What may be loaded when. Counted in a fresh process, because counts do not flake."""

import subprocess
import sys
from pathlib import Path

from tests.rows import each_row

ROOT = Path(__file__).parents[2]
HEAVY = {
    "httpx",
    "litellm",
    "openai",
    "pydantic",
    "importlib.metadata",
    "rich",
    "click",
    "pygments",
    "prompt_toolkit",
}


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@each_row(
    "module",
    [
        "types.base", "routing", "catalog.catalog", "transport.retry", "assemble", "transport.errors", "replay",
        "wire.chat.dialect", "wire.anthropic.dialect", "wire.responses.dialect", "litellm.model",
    ],
)  # fmt: skip
def test_no_module_loads_a_provider_library(module: str) -> None:
    assert not loaded_by(f"import agent_cli.model.{module}") & HEAVY


def test_opening_a_model_loads_no_provider_library() -> None:
    code = """
import asyncio
from agent_cli.config.schema import Config
from agent_cli.model.routing import open_model
asyncio.run(open_model("openai/gpt-4.1", Config(), {"OPENAI_API_KEY": "k"}))
asyncio.run(open_model("anthropic/claude-x", Config(), {"ANTHROPIC_API_KEY": "k"}))
"""
    assert not loaded_by(code) & HEAVY


def test_http_is_spoken_without_a_client_library() -> None:
    heavy = {*HEAVY, "httpcore", "anyio", "h2", "socksio", "http.client", "urllib.request", "email", "zlib"}
    assert not loaded_by("import agent_cli.model.transport.http") & heavy


def test_certificates_are_loaded_for_a_handshake_only() -> None:
    code = """
import asyncio
from agent_cli.config.schema import Timeouts
from agent_cli.model.transport import http
from agent_cli.model.types.base import ModelError
from agent_cli.net import certificates

async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for scheme, loaded in (("http", 0), ("https", 1)):
        try:
            await http.Connection(f"{scheme}://127.0.0.1:{port}/v1", {}, Timeouts()).get("/models", 10)
        except ModelError:
            pass
        assert certificates.context_for.cache_info().currsize == loaded
asyncio.run(main())
"""
    loaded_by(code)


def test_a_missing_litellm_is_told() -> None:
    code = """
import asyncio, sys
sys.modules["litellm"] = None
from agent_cli.config.schema import Config
from agent_cli.model.types.base import ModelError, ModelRequest
from agent_cli.model.routing import open_model
async def main():
    model = await open_model("bedrock/x", Config(), {})
    try:
        async for _ in model.stream(ModelRequest(system="", messages=())):
            pass
    except ModelError as error:
        assert error.kind == "unsupported" and "pip install litellm" in error.message, error
        return
    raise AssertionError("no error")
asyncio.run(main())
"""
    loaded_by(code)
