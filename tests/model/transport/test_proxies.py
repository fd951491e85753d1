from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_cli.model.transport.connection_errors import Unreachable
from agent_cli.model.transport.errors import explain
from agent_cli.net.proxies import BadProxy, excluded_by, proxy_for
from agent_cli.ui.text.hints import AT_A_SHELL, advice
from tests.model.network import Proxy, Socks, Tls, authority, refusing_port
from tests.model.reaching import answer, clear, failure
from tests.model.server import Reply, Server
from tests.rows import each_row

HOST = "api.invalid"
"""Only the proxy of a test knows it."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    clear(monkeypatch)


@each_row(
    ("url", "env", "found"),
    [
        ("https://a.example", {}, None),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1 (HTTPS_PROXY)"),
        (
            "https://a.example",
            {"https_proxy": "http://l:1", "HTTPS_PROXY": "http://u:1"},
            "http://l:1 (https_proxy)",
        ),
        ("https://a.example", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://a.example", {"http_proxy": "p:1"}, "http://p:1 (http_proxy)"),
        ("http://a.example", {"ALL_PROXY": "http://p"}, "http://p:80 (ALL_PROXY)"),
        (
            "https://a.example",
            {"ALL_PROXY": "http://all:1", "HTTPS_PROXY": "http://p:1"},
            "http://p:1 (HTTPS_PROXY)",
        ),
        ("https://a.example", {"ALL_PROXY": "socks://s:1080"}, "socks5://s:1080 (ALL_PROXY)"),
        ("https://a.example", {"HTTPS_PROXY": " ", "all_proxy": "socks5h://s"}, "socks5h://s:1080 (all_proxy)"),
        ("https://a.example", {"HTTPS_PROXY": "https://u:se%40cret@p:8/x"}, "https://p:8 (HTTPS_PROXY)"),
        ("https://a.example", {"HTTPS_PROXY": "http://[::1]:3"}, "http://[::1]:3 (HTTPS_PROXY)"),
        ("http://127.0.0.1:8080", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://[::1]:8080", {"ALL_PROXY": "http://p:1"}, None),
        ("http://my.localhost", {"ALL_PROXY": "http://p:1"}, None),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example, .example"}, None),
        ("https://a.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b.example"}, "http://p:1 (HTTPS_PROXY)"),
    ],
)
def test_the_proxy_of_an_address(url: str, env: dict[str, str], found: str | None) -> None:
    proxy = proxy_for(url, env)
    assert (proxy and str(proxy)) == found
    assert "cret" not in f"{proxy} {proxy!r}"


@each_row(
    ("value", "host", "excluded"),
    [
        ("*", "a.example", True),
        ("example", "a.example", True),
        ("a.example", "a.example", True),
        (".a.example", "a.example", True),
        ("*.example", "a.example", True),
        ("A.Example", "a.EXAMPLE", True),
        ("b.a.example", "a.example", False),
        ("ample", "a.example", False),
        ("a.example:443", "a.example", True),
        ("a.example:444", "a.example", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", True),
        ("fd00::/8", "fd00::1", True),
        ("[fd00::1]:443", "fd00::1", True),
        ("x.example  a.example", "a.example", True),
        ("localhost,,", "a.example", False),
        ("", "a.example", False),
    ],
)
def test_hosts_that_are_reached_without_a_proxy(value: str, host: str, excluded: bool) -> None:
    assert excluded_by(host, 443, {"NO_PROXY": value}) == ("NO_PROXY" if excluded else "")
    assert bool(excluded_by(host, 443, {"no_proxy": value})) is excluded


@pytest.mark.parametrize("value", ["gopher://x", "http://", "http://p:port", "://", "http://..x:1"])
def test_a_proxy_that_is_none_is_told_without_its_value(value: str) -> None:
    with pytest.raises(BadProxy, match="HTTPS_PROXY is not an address"):
        proxy_for("https://a.example", {"HTTPS_PROXY": value})


@asynccontextmanager
async def company(
    monkeypatch: pytest.MonkeyPatch, folder: Path, **how: object
) -> AsyncIterator[tuple[Server, Proxy]]:
    """A server behind TLS that only a proxy can reach, its authority known."""
    ca, certificate = authority(folder)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", certificate)
    async with (
        Server(then=Reply(text="hi")) as server,
        Tls(server.port, ca, HOST) as front,
        Proxy({HOST: front.port}, **how) as proxy,  # type: ignore[arg-type]
    ):
        yield server, proxy


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_server_is_reached_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    async with company(monkeypatch, tmp_path) as (server, proxy):
        monkeypatch.setenv(variable, proxy.url)
        got = await answer(f"https://{HOST}/v1", api_key="secret", headers={"X-Team": "tools"})
    assert got.text == "hi"
    (asked,) = proxy.asked
    assert (asked.method, asked.target) == ("CONNECT", f"{HOST}:443")
    assert "authorization" not in asked.headers and "x-team" not in asked.headers
    assert server.requests[0].headers["x-team"] == "tools"
    assert server.requests[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("login", ["", "jo:secret"])
async def test_a_server_is_reached_through_a_socks_proxy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, login: str
) -> None:
    ca, certificate = authority(tmp_path)
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", certificate)
    async with (
        Server(then=Reply(text="hi")) as server,
        Tls(server.port, ca, HOST) as front,
        Socks({HOST: front.port}, login=login) as proxy,
    ):
        monkeypatch.setenv("ALL_PROXY", f"socks5h://{login and f'{login}@'}127.0.0.1:{proxy.port}")
        assert (await answer(f"https://{HOST}/v1")).text == "hi"
    assert set(proxy.asked) == {(HOST, 443)}


@pytest.mark.parametrize(
    ("how", "login", "told", "hint", "retryable"),
    [
        ({"login": "jo:secret"}, "", "wants a user name and password", "proxy_login", False),
        ({"login": "jo:secret"}, "jo:other@", "does not accept the user name and password", "proxy_login", False),
        ({"reply": 2}, "", "connection not allowed by ruleset", "proxy_forbids", False),
        ({"reply": 4}, "", "does not connect to api.invalid:443 (host unreachable)", "check_server", True),
    ],
)
async def test_a_socks_proxy_that_does_not_let_through(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], login: str, told: str, hint: str, retryable: bool
) -> None:
    async with Socks({}, **how) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5h://{login}127.0.0.1:{proxy.port}")
        error = await failure(f"https://{HOST}/v1")
    assert isinstance(error, Unreachable) and told in error.message and "(ALL_PROXY)" in error.message
    assert (error.hint.kind, error.retryable) == (hint, retryable)


async def test_a_proxy_gets_its_user_name_and_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with company(monkeypatch, tmp_path, login="jo:p@ss w") as (server, proxy):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace(" ", "%20"))
        assert (await answer(f"https://{HOST}/v1")).text == "hi"
    assert "proxy-authorization" not in server.requests[0].headers


async def test_a_proxy_may_itself_speak_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ca, certificate = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    async with (
        Server(Reply(text="hi")) as server,
        Tls(server.port, ca, HOST) as front,
        Tls(0, ca, "127.0.0.1") as spare,
        Proxy({HOST: front.port}, context=spare.context) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert (await answer(f"https://{HOST}/v1")).text == "hi"


@pytest.mark.parametrize("login", ["", "jo:secret"])
async def test_plain_http_goes_through_the_proxy_too(monkeypatch: pytest.MonkeyPatch, login: str) -> None:
    async with Server(Reply(text="hi")) as server, Proxy({HOST: server.port}, login=login) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert (await answer(f"http://{HOST}/v1")).text == "hi"
    assert proxy.asked[0].target == f"http://{HOST}/v1/chat/completions"


async def test_no_proxy_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.0.0.0 is this machine without being called loopback."""
    async with Server(then=Reply(text="hi")) as server, Proxy({"0.0.0.0": server.port}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        url = f"http://0.0.0.0:{server.port}/v1"
        assert (await answer(url)).text == "hi"
        assert len(proxy.asked) == 1
        monkeypatch.setenv("NO_PROXY", "localhost,0.0.0.0")
        assert (await answer(url)).text == "hi"
        assert len(proxy.asked) == 1


async def test_a_setting_for_other_addresses_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://x")
    async with Server(Reply(text="hi")) as server, Proxy({HOST: server.port}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert (await answer(f"http://{HOST}/v1")).text == "hi"


@pytest.mark.parametrize(
    ("scheme", "how", "lasting", "words"),
    [
        ("https", {"login": "a:b"}, True, "wants a user name and password (HTTP 407"),
        ("http", {"login": "a:b"}, True, "wants a user name and password (HTTP 407"),
        ("https", {"manner": "refuse"}, True, "does not connect to api.invalid:443 (HTTP 403"),
        ("https", {"manner": "refuse", "status": "503 Busy"}, False, "(HTTP 503 Busy)"),
        ("https", {"manner": "close"}, False, "broke the connection off"),
        ("https", {"manner": "no_http"}, False, "broke the connection off"),
    ],
)
async def test_a_proxy_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    scheme: str,
    how: dict[str, str],
    lasting: bool,
    words: str,
) -> None:
    async with company(monkeypatch, tmp_path, **how) as (_, proxy):
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://127.0.0.1:{proxy.port}")
        error = await failure(f"{scheme}://{HOST}/v1")
        assert isinstance(error, Unreachable)
        assert (error.hop, error.kind) == ("proxy", "connection") and words in error.message
        assert error.retryable != lasting
        told = explain(error, "openai/x")
        assert told.message.startswith("cannot talk to OpenAI") and f"{scheme.upper()}_PROXY" in told.message
        assert told.hints
        await proxy.until_closed()


async def test_a_wrong_password_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with company(monkeypatch, tmp_path, login="jo:right") as (_, proxy):
        monkeypatch.setenv("HTTPS_PROXY", f"http://jo:wrong@127.0.0.1:{proxy.port}")
        error = await failure(f"https://{HOST}/v1")
    assert "does not accept the user name and password" in error.message and "wrong" not in error.message


async def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_port() as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        error = await failure(f"https://{HOST}/v1")
    said = f"cannot connect to the proxy http://127.0.0.1:{port} (HTTPS_PROXY): Connection refused"
    assert error.message == said
    assert "HTTPS_PROXY is right" in advice(explain(error, "openai/x").hints, AT_A_SHELL)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:3128")
    error = await failure(f"https://{HOST}/v1")
    assert isinstance(error, Unreachable) and error.hop == "dns"
    assert "the name of the proxy http://proxy.invalid:3128 (HTTPS_PROXY) cannot be resolved" in error.message
