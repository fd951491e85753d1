import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_cli.model.transport.connection_errors import Unreachable
from agent_cli.model.transport.errors import explain
from agent_cli.net.certificates import unreadable
from agent_cli.ui.text.hints import AT_A_SHELL, advice
from tests.model.network import Listener, Tls, authority
from tests.model.reaching import answer, clear, failure
from tests.model.server import Reply, Server


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


@asynccontextmanager
async def company(folder: Path, name: str = "127.0.0.1") -> AsyncIterator[tuple[str, str]]:
    """Base URL of a server behind TLS, and the path of its authority's certificate."""
    ca, certificate = authority(folder)
    async with Server(then=Reply(text="hi")) as server, Tls(server.port, ca, name) as front:
        yield f"https://127.0.0.1:{front.port}/v1", certificate


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"])
async def test_a_file_with_an_authority_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    async with company(tmp_path) as (url, certificate):
        monkeypatch.setenv(variable, certificate)
        assert (await answer(url)).text == "hi"


@pytest.mark.skipif(not shutil.which("openssl"), reason="OpenSSL's command names the files of such a folder")
@pytest.mark.parametrize("variable", ["SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
async def test_a_folder_with_an_authority_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    async with company(tmp_path) as (url, certificate):
        subprocess.run(["openssl", "rehash", str(tmp_path)], check=True, capture_output=True)
        monkeypatch.setenv(variable, str(Path(certificate).parent))
        assert (await answer(url)).text == "hi"


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"])
async def test_what_is_added_does_not_replace_what_was_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    _, other = authority(tmp_path, "Other Corp")
    async with company(tmp_path) as (url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", certificate)  # stands for the system's own authorities
        monkeypatch.setenv(variable, other)
        assert (await answer(url)).text == "hi"


async def test_a_certificate_that_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with company(tmp_path) as (url, _):
        error = await failure(url)
        assert isinstance(error, Unreachable) and (error.hop, error.kind) == ("tls", "connection")
        assert not error.retryable
        assert error.message.startswith("the certificate of 127.0.0.1 is not trusted: unable to get local issuer")
        assert "SSL_CERT_FILE" in advice(explain(error, "openai/x").hints, AT_A_SHELL)
        assert "is not trusted" in (await failure(url.replace("https", "HTTPS"))).message
        monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(tmp_path / "gone.pem"))
        assert "NODE_EXTRA_CA_CERTS cannot be read" in (await failure(url)).message


async def test_a_certificate_for_another_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with company(tmp_path, "other.example") as (url, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        error = await failure(url)
    assert "certificate is not valid for '127.0.0.1'" in error.message
    assert isinstance(error, Unreachable) and error.hint.kind == "certificate_name"


@pytest.mark.parametrize(
    ("start", "end", "told"), [(2019, 2020, "certificate has expired"), (2200, 2201, "is not yet valid")]
)
async def test_a_certificate_that_is_not_valid_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: int, end: int, told: str
) -> None:
    ca, certificate = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    validity = {"not_before": datetime(start, 1, 1, tzinfo=UTC), "not_after": datetime(end, 1, 1, tzinfo=UTC)}
    async with Server() as server, Tls(server.port, ca, "127.0.0.1", **validity) as front:
        error = await failure(f"https://127.0.0.1:{front.port}/v1")
    assert isinstance(error, Unreachable) and error.hint.kind == "certificate_date"
    assert told in error.message


class _PlainHttp(Listener):
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()


async def test_https_where_none_is_spoken() -> None:
    async with _PlainHttp() as server:
        error = await failure(f"https://127.0.0.1:{server.port}/v1")
    assert isinstance(error, Unreachable) and (error.hop, error.kind) == ("tls", "connection")
    assert error.hint.kind == "no_tls"


class _HangsUp(Listener):
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        return


async def test_a_handshake_that_is_broken_off() -> None:
    async with _HangsUp() as server:
        error = await failure(f"https://127.0.0.1:{server.port}/v1")
    assert isinstance(error, Unreachable) and error.hop == "tls"
    assert error.message.startswith("the TLS handshake with 127.0.0.1 failed: ") and not error.message.endswith(
        ": "
    )


def test_variables_that_name_no_certificates(tmp_path: Path) -> None:
    _, certificate = authority(tmp_path)
    (tmp_path / "empty").write_text("nothing", encoding="utf-8")
    env = dict(os.environ) | {
        "SSL_CERT_FILE": certificate, "SSL_CERT_DIR": certificate, "REQUESTS_CA_BUNDLE": str(tmp_path / "empty"),
        "NODE_EXTRA_CA_CERTS": str(tmp_path / "gone"),
    }  # fmt: skip
    assert unreadable(env) == ("SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
    assert unreadable({"SSL_CERT_DIR": str(tmp_path), "REQUESTS_CA_BUNDLE": str(tmp_path)}) == ()
