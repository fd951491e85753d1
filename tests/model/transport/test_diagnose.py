from pathlib import Path

import pytest

from agent_cli.model.transport.connection_errors import Unreachable
from agent_cli.model.transport.diagnose import HopResult, Target, list_path, walk
from tests.model.network import Listener, Proxy, Tls, authority, refusing_port
from tests.model.reaching import clear
from tests.model.server import Server

HOST = "api.invalid"
PATIENCE_S = 60.0
SOON_S = 0.4
"""Where nothing will come."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


async def walked(base_url: str, limit_s: float = PATIENCE_S) -> list[HopResult]:
    return [step async for step in walk(Target(base_url, "/models", {}), limit_s)]


def passed(steps: list[HopResult]) -> list[str]:
    """The stations, with `!` behind the one that failed."""
    return [step.hop + "!" * (step.error is not None) for step in steps]


async def test_a_server_nearby() -> None:
    async with Server() as server:
        steps = await walked(server.url)
    assert passed(steps) == ["tcp", "http"]
    assert steps[-1].status == 200 and b"mock" in steps[-1].body


async def test_all_stations_of_a_company(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ca, certificate = authority(tmp_path, "Example Corp")
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    async with (
        Server() as server,
        Tls(server.port, ca, HOST) as front,
        Proxy({HOST: front.port}, login="jo:secret") as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("127.0.0.1", "localhost"))
        steps = await walked(f"https://{HOST}/v1")
    assert passed(steps) == ["dns", "tcp", "proxy", "tls", "http"]
    dns, tcp, tunnel, tls, http = (step.text for step in steps)
    assert dns.startswith("localhost is ") and tcp.startswith(f"connected to localhost:{proxy.port}")
    assert tunnel == f"http://localhost:{proxy.port} (HTTPS_PROXY) connects to api.invalid:443"
    assert tls.startswith("TLSv1") and tls.endswith("issued by “Example Corp”") and http == "HTTP 200"


async def test_a_proxy_for_plain_http_is_asked_with_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server() as server, Proxy({HOST: server.port}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        steps = await walked(f"http://{HOST}/v1")
    assert passed(steps) == ["tcp", "proxy", "http"]


async def test_a_host_that_is_excluded_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "0.0.0.0")
    async with Server() as server:
        steps = await walked(f"http://0.0.0.0:{server.port}/v1")
    assert passed(steps) == ["proxy", "tcp", "http"]
    assert steps[0].text == "none: NO_PROXY names 0.0.0.0"


@pytest.mark.parametrize("base_url", ["nonsense", "ftp://host/", "https://", "", "http://a b/v1", "http://..x/v1"])
async def test_no_address(base_url: str) -> None:
    assert passed(await walked(base_url)) == ["address!"]


async def test_a_name_nobody_knows() -> None:
    (step,) = await walked(f"https://{HOST}/v1")
    assert isinstance(step.error, Unreachable) and step.error.hop == "dns"
    assert step.error.hint.kind == "check_host"


async def test_a_proxy_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "http://proxy.invalid:3128")
    (step,) = await walked(f"https://{HOST}/v1")
    assert step.hop == "dns" and step.error is not None and "(all_proxy)" in step.error.message
    monkeypatch.setenv("all_proxy", "gopher://x")
    (step,) = await walked(f"https://{HOST}/v1")
    assert step.hop == "proxy" and step.error is not None and "all_proxy" in step.error.message


async def test_a_port_nobody_listens_on() -> None:
    with refusing_port() as port:
        (step,) = await walked(f"http://127.0.0.1:{port}/v1")
    assert step.error is not None
    assert step.error.message == f"cannot connect to 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"login": "jo:other"}, "does not accept the user name and password (HTTP 407"),
        ({"manner": "refuse"}, "does not connect to api.invalid:443 (HTTP 403 Forbidden)"),
        ({"manner": "hang"}, "took the connection and did not answer within 0.4 s"),
        ({"manner": "close"}, "broke the connection off"),
        ({"manner": "no_http"}, "broke the connection off"),
    ],
)
async def test_a_proxy_that_does_not_let_through(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, str], words: str
) -> None:
    async with Proxy({}, **how) as proxy:  # type: ignore[arg-type]
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:secret@127.0.0.1:{proxy.port}")
        steps = await walked(f"https://{HOST}/v1", SOON_S if how.get("manner") == "hang" else PATIENCE_S)
        await proxy.until_closed()
    assert passed(steps) == ["tcp", "proxy!"]
    error = steps[-1].error
    assert error is not None and words in error.message and "secret" not in error.message


async def test_a_certificate_that_is_not_trusted_and_who_signed_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ca, _ = authority(tmp_path, "Snooping Proxy Inc")
    async with Server() as server, Tls(server.port, ca, HOST) as front, Proxy({HOST: front.port}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        steps = await walked(f"https://{HOST}/v1")
        assert passed(steps) == ["tcp", "proxy", "tls!"]
        error = steps[-1].error
        assert isinstance(error, Unreachable) and error.hint.kind == "certificate"
        assert "the certificate of api.invalid, issued by “Snooping Proxy Inc”, is not trusted: " in error.message
        assert server.opened == 0 or not server.requests
        await proxy.until_closed()


async def test_a_handshake_without_an_answer() -> None:
    async with Listener() as server:
        steps = await walked(f"https://127.0.0.1:{server.port}/v1", SOON_S)
        await server.until_closed()
    assert passed(steps) == ["tcp", "tls!"]
    assert steps[-1].error is not None and "did not finish within 0.4 s" in steps[-1].error.message


async def test_a_server_that_says_nothing() -> None:
    async with Listener() as server:
        steps = await walked(f"http://127.0.0.1:{server.port}/v1", SOON_S)
        await server.until_closed()
    assert passed(steps) == ["tcp", "http!"]


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("/chat/completions", "/models"),
        ("/v1/messages", "/v1/models"),
        ("/responses", "/models"),
        ("/api/chat", "/api/tags"),
        ("/other", "/models"),
    ],
)
def test_where_a_server_lists_its_models(path: str, listed: str) -> None:
    assert list_path(path) == listed


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(Target("https://a/v1", "/models", {"authorization": "Bearer secret"}))
