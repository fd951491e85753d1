"""Logins: made in the browser or with a pasted address, kept in a private file, renewed before they end, and never
shown."""

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.mcp.client.oauth import _SCOPE
from agent_cli.mcp.client.redirect import RedirectListener
from agent_cli.mcp.client.tokens import TokenStore
from agent_cli.mcp.types.client import LoginNeeded, ServerError
from agent_cli.mcp.types.definition import OAuthSettings, ServerDefinition
from tests.costs import assert_linear

from .oauth_server import Browser, OAuthServer, oauth_server
from .world import Answers, Lab

PLANTED = "planted"


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with oauth_server() as made:
        yield made


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "logins")


async def login(definition: ServerDefinition, tokens: TokenStore, **how: Any) -> None:
    """Log in with the SDK, which takes half a second to load and is loaded by those who need it."""
    from agent_cli.mcp.client import oauth

    await oauth.login(definition, tokens, **how)


def at(server: OAuthServer, **more: Any) -> ServerDefinition:
    return ServerDefinition(name="demo", transport="http", url=f"{server.base}/mcp", **more)


async def logged_in(server: OAuthServer, tokens: TokenStore, **more: Any) -> Browser:
    browser = Browser(server)
    await asyncio.wait_for(login(at(server, **more), tokens, show=browser.show), 60)
    return browser


async def test_a_login_in_the_browser_is_kept_and_used(lab: Lab, server: OAuthServer, tokens: TokenStore) -> None:
    with pytest.raises(LoginNeeded, match="Log in with `agent mcp login demo`"):
        await lab.connect(at(server), tokens=tokens)
    browser = await logged_in(server, tokens)
    assert browser.answers == [400, 200]
    assert browser.query["code_challenge_method"] == "S256"
    assert browser.query["resource"] == f"{server.base}/mcp"
    assert browser.query["redirect_uri"].startswith("http://127.0.0.1:")
    assert server.forms[0]["code_verifier"] and server.forms[0]["resource"] == f"{server.base}/mcp"
    client = await lab.connect(at(server), tokens=tokens)
    assert (await client.call("whoami", {})).text == "Ada"


async def test_the_file_is_private_and_forgotten_by_logout(
    lab: Lab, server: OAuthServer, tokens: TokenStore, tmp_path: Path
) -> None:
    await logged_in(server, tokens)
    found = [each for each in (tmp_path / "logins").iterdir() if each.suffix == ".json"]
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in found] == [0o600]
    assert stat.S_IMODE(os.stat(tmp_path / "logins").st_mode) == 0o700
    kept = tokens.load(at(server))
    assert kept is not None and PLANTED not in repr(kept)
    assert (kept.issuer, kept.resource) == (f"{server.base}/as", f"{server.base}/mcp")
    assert kept.expires_at > time.time()
    assert tokens.forget(at(server)) is True and tokens.forget(at(server)) is False
    with pytest.raises(LoginNeeded):
        await lab.connect(at(server), tokens=tokens)


async def test_a_pasted_address_does_without_a_browser(server: OAuthServer, tokens: TokenStore) -> None:
    browser = Browser(server)
    await login(at(server), tokens, show=browser.just_show, pasted=pasting(lambda: f"  {browser.redirect()}\n"))
    kept = tokens.load(at(server))
    assert kept is not None and kept.access_token == "planted-access-1"


def pasting(text: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    async def pasted() -> str:
        return text()

    return pasted


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"state": "forged"}, "sent back an address of another login"),
        ({"iss": "https://evil.invalid"}, "the login failed"),
        ({"error": "access_denied"}, "refused the login: access_denied"),
    ],
)
async def test_a_forged_or_refused_answer_ends_the_login(
    server: OAuthServer, tokens: TokenStore, changed: dict[str, str], words: str
) -> None:
    browser = Browser(server)
    with pytest.raises(ServerError, match=f"demo .*{words}") as caught:
        await login(
            at(server), tokens, show=browser.just_show, pasted=pasting(lambda: browser.redirect(**changed))
        )
    assert PLANTED not in str(caught.value) and browser.query["state"] not in str(caught.value)
    assert caught.value.__cause__ is None and tokens.load(at(server)) is None and server.forms == []


async def test_odd_requests_at_the_redirect_do_not_end_the_wait() -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))

    async def asked(target: str, cookie: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(f"GET {target} HTTP/1.1\r\nCookie: {'x' * cookie}\r\n\r\n".encode())
        try:
            return await asyncio.wait_for(reader.read(), 30)
        except ConnectionResetError:  # it was closed while the request still arrived
            return b""
        finally:
            writer.close()

    async with RedirectListener() as listener:
        waiting = asyncio.ensure_future(listener.answer("S", None))
        await asyncio.sleep(0)
        assert await asked("/callback?state=S&code=C", 600_000) == b""
        assert b"400 Bad Request" in await asked("/callback?state=S", 10)
        assert not problems and not waiting.done()
        assert b"200 OK" in await asked("/callback?state=S&code=C", 50_000)
        assert (await asyncio.wait_for(waiting, 30))["code"] == "C"


async def test_what_is_no_address_is_not_taken(server: OAuthServer, tokens: TokenStore) -> None:
    with pytest.raises(ServerError, match="paste the whole address"):
        await login(at(server), tokens, show=lambda address: None, pasted=pasting(lambda: "yes"))


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"methods": ()}, "does not support PKCE with S256"),
        ({"methods": ("plain",)}, "does not support PKCE with S256"),
        ({"issuer": "https://evil.invalid/as"}, "the login failed: .*issuer"),
        ({"resource": "https://evil.invalid/mcp"}, "the login failed: Protected resource"),
        (
            {"token_endpoint": "http://evil.invalid/token"},
            "gives tokens at http://evil.invalid/token, which is not",
        ),
        ({"registers": False}, "registers no clients.*client_id"),
        ({"wants_login": False}, "asks for no login"),
        (
            {"token_status": 400, "token_answer": {"error": "invalid_grant", "hint": "planted-code"}},
            "the login failed: Token exchange failed",
        ),
    ],
)
async def test_a_login_that_is_not_safe_or_not_possible_is_refused(
    server: OAuthServer, tokens: TokenStore, knobs: dict[str, Any], words: str
) -> None:
    for name, value in knobs.items():
        setattr(server.knobs, name, value)
    browser = Browser(server)
    with pytest.raises(ServerError, match=f"demo .*{words}") as caught:
        await login(at(server), tokens, show=browser.just_show, pasted=pasting(lambda: browser.redirect()))
    assert PLANTED not in str(caught.value) and tokens.load(at(server)) is None
    assert browser.addresses == [] or "token_status" in knobs


async def test_metadata_is_not_fetched_elsewhere(server: OAuthServer, tokens: TokenStore) -> None:
    with oauth_server() as elsewhere:
        server.knobs.redirects_to = f"{elsewhere.base}/.well-known/oauth-protected-resource"
        elsewhere.knobs.resource = f"{server.base}/mcp"
        browser = Browser(server)
        with pytest.raises(ServerError, match="demo"):
            await login(at(server), tokens, show=browser.just_show, pasted=pasting(lambda: browser.redirect()))
        assert elsewhere.registrations == [] and elsewhere.forms == []


async def test_the_settings_of_the_user_are_used(server: OAuthServer, tokens: TokenStore) -> None:
    settings = OAuthSettings("mine", "planted-own", scopes=("read", "write"), callback_host="localhost")
    browser = await logged_in(server, tokens, oauth=settings)
    assert browser.query["redirect_uri"].startswith("http://localhost:")
    assert browser.query["client_id"] == "mine" and browser.query["scope"] == "read write"
    assert server.registrations == [] and server.forms[0]["client_secret"] == "planted-own"


async def test_a_client_is_registered_for_the_scopes_of_the_user(server: OAuthServer, tokens: TokenStore) -> None:
    server.knobs.scope = "all"
    browser = await logged_in(server, tokens, oauth=OAuthSettings(scopes=("read", "write")))
    assert server.registrations[0]["scope"] == browser.query["scope"] == "read write"


def test_the_demand_of_a_server_is_read_in_time_linear_in_its_length() -> None:
    assert _SCOPE.sub("", 'Bearer realm="x",  scope="a b", error=y') == 'Bearer realm="x", error=y'
    assert_linear(lambda count: _SCOPE.sub("", "Bearer" + " " * count), 1_000)


async def test_each_login_registers_a_client_as_the_server_may_have_forgotten_one(
    server: OAuthServer, tokens: TokenStore
) -> None:
    await logged_in(server, tokens)
    again = await logged_in(server, tokens)
    assert again.query["client_id"] == "client-2"


async def test_a_login_after_a_call_without_the_rights_asks_for_these_too(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    server.knobs.scope = "read"
    await logged_in(server, tokens)
    client = await lab.connect(at(server), tokens=tokens)
    server.knobs.call_scope = "admin:write"
    with pytest.raises(LoginNeeded, match=r"needs a login with more rights: admin:write .*`agent mcp login"):
        await client.call("whoami", {})
    server.knobs.scope = ""
    again = await logged_in(server, tokens)
    assert server.registrations[-1]["scope"] == again.query["scope"] == "read admin:write"


async def test_the_scopes_of_the_configuration_count_whatever_a_login_lacked(
    server: OAuthServer, tokens: TokenStore
) -> None:
    await logged_in(server, tokens)
    kept = tokens.load(at(server))
    assert kept is not None
    tokens.save(at(server), msgspec.structs.replace(kept, missing_scope="admin:write"))
    again = await logged_in(server, tokens, oauth=OAuthSettings(scopes=("mine",)))
    assert again.query["scope"] == "mine"


async def test_a_callback_port_that_is_taken_is_named(server: OAuthServer, tokens: TokenStore) -> None:
    taken = server.server_port
    browser = Browser(server)
    with pytest.raises(ServerError, match=rf"port {taken} .*`callback_port`.*in use"):
        await asyncio.wait_for(
            login(at(server, oauth=OAuthSettings(callback_port=taken)), tokens, show=browser.just_show), 60
        )
    assert browser.addresses == []


def stale(tokens: TokenStore, definition: ServerDefinition, expires_at: float) -> None:
    kept = tokens.load(definition)
    assert kept is not None
    tokens.save(definition, msgspec.structs.replace(kept, expires_at=expires_at))


async def test_a_token_that_ends_soon_is_exchanged_once_for_all(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    await logged_in(server, tokens)
    stale(tokens, at(server), time.time() + 20)
    clients = await asyncio.gather(*(lab.connect(at(server), tokens=tokens) for _ in range(3)))
    called = await asyncio.gather(*(client.call("whoami", {}) for client in clients))
    assert [each.text for each in called] == ["Ada"] * 3
    assert [form["grant_type"] for form in server.forms] == ["authorization_code", "refresh_token"]
    kept = tokens.load(at(server))
    assert kept is not None
    assert (kept.access_token, kept.refresh_token) == ("planted-access-2", "planted-refresh-1")
    assert server.forms[1]["resource"] == f"{server.base}/mcp" and server.forms[1]["client_id"] == "client-1"


async def test_a_token_that_lives_five_minutes_is_not_exchanged_at_once(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    server.knobs.expires_in = 300
    await logged_in(server, tokens)
    client = await lab.connect(at(server), tokens=tokens)
    await client.call("whoami", {})
    assert [form["grant_type"] for form in server.forms] == ["authorization_code"]


async def test_an_exchange_is_read_as_leniently_as_a_login(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    server.knobs.token_answer = {"expires_in": "3600", "error": None, "scope": None}
    await logged_in(server, tokens)
    server.knobs.rotates = True
    stale(tokens, at(server), time.time() - 1)
    client = await lab.connect(at(server), tokens=tokens)
    assert (await client.call("whoami", {})).text == "Ada"
    kept = tokens.load(at(server))
    assert kept is not None and kept.refresh_token == "planted-refresh-2"


async def test_a_token_that_is_not_accepted_is_exchanged_once(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    await logged_in(server, tokens)
    client = await lab.connect(at(server), tokens=tokens)
    server.knobs.rotates = True
    server.accepted.clear()
    assert (await client.call("whoami", {})).text == "Ada"
    kept = tokens.load(at(server))
    assert kept is not None and kept.refresh_token == "planted-refresh-2"


async def test_a_login_that_ended_is_dropped_and_a_new_one_is_picked_up(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    await logged_in(server, tokens)
    answers = Answers()
    client = await lab.connect(at(server), answers, tokens=tokens)
    server.accepted.clear()
    server.refreshable.clear()
    with pytest.raises(LoginNeeded, match="needs a login") as caught:
        await client.call("whoami", {})
    kept = tokens.load(at(server))
    assert kept is not None and (kept.access_token, kept.refresh_token) == ("", "")
    assert PLANTED not in "\n".join([str(caught.value), *answers.lines])
    await logged_in(server, tokens)
    again = await lab.connect(at(server), tokens=tokens)
    assert (await again.call("whoami", {})).text == "Ada"


async def test_a_token_endpoint_that_is_down_costs_no_login(
    lab: Lab, server: OAuthServer, tokens: TokenStore
) -> None:
    await logged_in(server, tokens)
    server.knobs.token_status = 503
    stale(tokens, at(server), time.time() + 20)
    client = await lab.connect(at(server), tokens=tokens)
    assert (await client.call("whoami", {})).text == "Ada"
    kept = tokens.load(at(server))
    assert kept is not None and kept.refresh_token == "planted-refresh-1"


async def test_own_credentials_come_before_a_login(lab: Lab, server: OAuthServer, tokens: TokenStore) -> None:
    await logged_in(server, tokens)
    server.accepted = {"Bearer mine"}
    own = at(server, headers={"authorization": "Bearer mine"})
    client = await lab.connect(own, tokens=tokens)
    assert (await client.call("whoami", {})).text == "Ada"
