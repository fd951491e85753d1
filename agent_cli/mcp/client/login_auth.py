"""Stored logins on requests: a token about to expire is refreshed first, and a rejected one is refreshed once. The
user is never asked to log in here."""

import asyncio
import base64
import contextlib
import os
import time
from collections.abc import AsyncGenerator
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from agent_cli.net.certificates import tls_context
from agent_cli.protocol.json_text import decode_json

from ..types.client import ServerError
from ..types.definition import ServerDefinition
from .http import proxy_setting, usable_proxy
from .http_failures import missing_scope
from .tokens import StoredLogin, TokenStore, expiry

_REFRESH_S = 30.0
_MOST_BYTES = 1_000_000


class LoginAuth(httpx2.Auth):
    """Adds the access token of a server's login to requests to that server."""

    def __init__(self, definition: ServerDefinition, tokens: TokenStore) -> None:
        self._definition = definition
        self._tokens = tokens

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; if it is rejected, once more with a new one."""
        login = await asyncio.to_thread(self._tokens.load, self._definition)
        if login is None or not _is_same_origin(self._definition.url, str(request.url)):
            yield request
            return
        if login.is_stale(time.time()):
            login = await self._refreshed(login)
        response = yield _with(request, login)
        if response.status_code == 401 and login.access_token:
            newer = await self._refreshed(login)
            if newer.access_token and newer.access_token != login.access_token:
                response = yield _with(request, newer)
        if missing := missing_scope(response):
            await asyncio.to_thread(self._note_missing, missing)

    def _note_missing(self, scope: str) -> None:
        """Save which scope the login lacks, for the next one to request it."""
        with contextlib.suppress(OSError), self._tokens.locked(self._definition):
            login = self._tokens.load(self._definition)
            if login is not None:
                self._tokens.save(self._definition, msgspec.structs.replace(login, missing_scope=scope))

    async def _refreshed(self, login: StoredLogin) -> StoredLogin:
        """Refresh a login's token. This continues in a thread on cancellation, because a used refresh token must
        not be lost."""
        return await asyncio.to_thread(refresh, self._definition, self._tokens, login)


def refresh(definition: ServerDefinition, tokens: TokenStore, login: StoredLogin) -> StoredLogin:
    """Return the login with a new access token, or unchanged if none is available. A token or login that another
    program has renewed in the meantime takes precedence."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(tokens.locked(definition))
        except OSError:
            return login
        latest = tokens.load(definition)
        if latest is None:
            return login.without_tokens()
        if latest.access_token != login.access_token or not latest.refresh_token:
            return latest
        try:
            newer = _exchanged(latest)
        except _InvalidGrant:
            newer = latest.without_tokens()
        if newer is not latest:
            with contextlib.suppress(OSError):  # it is valid for this session at least
                tokens.save(definition, newer)
        return newer


class _InvalidGrant(Exception):
    """The refresh token is no longer accepted."""


class _Answer(msgspec.Struct, frozen=True):
    """Response of the token endpoint; read leniently, because it may hold the only refresh token that is valid."""

    access_token: str | None = None
    refresh_token: str | None = None
    expires_in: float | None = None
    scope: str | None = None
    error: str | None = None


def _exchanged(login: StoredLogin) -> StoredLogin:
    """Request a new access token (RFC 6749 §6); return the login unchanged if that fails."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    form["resource"] = login.resource
    headers = {"accept": "application/json"}
    if login.token_endpoint_auth_method == "client_secret_basic":
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif login.client_secret:
        form["client_secret"] = login.client_secret
    try:
        answer = _posted(login.token_endpoint, form, headers)
    except (httpx2.HTTPError, msgspec.DecodeError, ServerError):
        return login
    if answer.error in ("invalid_grant", "invalid_client", "unauthorized_client"):
        raise _InvalidGrant
    if not answer.access_token:
        return login
    return msgspec.structs.replace(
        login,
        access_token=answer.access_token,
        refresh_token=answer.refresh_token or login.refresh_token,
        expires_at=expiry(answer.expires_in),
        scope=login.scope if answer.scope is None else answer.scope,
    )


def _posted(url: str, form: dict[str, str], headers: dict[str, str]) -> _Answer:
    proxy = proxy_setting(usable_proxy(url, os.environ))
    with (
        httpx2.Client(verify=tls_context(), proxy=proxy, trust_env=False, timeout=_REFRESH_S) as client,
        client.stream("POST", url, data=form, headers=headers, follow_redirects=False) as response,
    ):
        body = b""
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > _MOST_BYTES:
                break
    return msgspec.convert(decode_json(body), _Answer, strict=False)


def _with(request: httpx2.Request, login: StoredLogin) -> httpx2.Request:
    if login.access_token:
        request.headers["authorization"] = f"Bearer {login.access_token}"
    return request


def _is_same_origin(url: str, other: str) -> bool:
    one, two = urlsplit(url), urlsplit(other)
    return (one.scheme, one.hostname, one.port) == (two.scheme, two.hostname, two.port)
