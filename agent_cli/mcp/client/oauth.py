"""Login at a server by OAuth 2.1: the user's browser, a redirect to this machine, and stored tokens.

The SDK implements the flow; this module adds what it leaves to its caller: the listener, the requirement of PKCE
with S256, the check of addresses, and messages without secrets.
"""

import os
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import (
    AuthorizationCodeResult,
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from agent_cli import __version__
from agent_cli.net.proxies import is_loopback

from ..types.client import ServerError
from ..types.definition import ServerDefinition
from .failures import innermost
from .http import MessageTransport
from .http_failures import HttpFailure, of_exception, shown_url
from .redirect import RedirectListener
from .tokens import StoredLogin, TokenStore, expiry

_TIMEOUT_S = 30.0
_MOST_CHARS = 300
_SCOPE = re.compile(r',?\s{0,9}\bscope=("[^"]*"|[^\s,]+)')
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "agent-cli", "version": __version__},
    },
}
"""Message sent to provoke a login request."""


async def login(
    definition: ServerDefinition,
    tokens: TokenStore,
    *,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str]] | None = None,
) -> None:
    """Log in at a server and store the tokens.

    Args:
        definition: the server.
        tokens: store for the login, which replaces an earlier one only after success.
        show: receives the address that the user must open.
        pasted: returns the redirect address pasted by the user; None to wait only for the browser.

    Raises:
        ServerError: the login failed. The text holds no code, state or token.
    """
    if definition.transport == "stdio":
        raise ServerError(f"The MCP server {definition.name} is a program of yours and needs no login.")
    scopes = _scopes(definition, tokens.load(definition))
    async with RedirectListener(definition.oauth.callback_port, definition.oauth.callback_host) as at:
        flow = _Flow(definition, scopes, at, show, pasted)
        try:
            found = await flow.run()
        except Exception as error:
            raise ServerError(flow.in_words(error)) from None  # the cause may hold secrets
    with tokens.locked(definition):
        tokens.save(definition, found)


class _Flow:
    """A login, and the storage that the SDK's provider requires."""

    def __init__(
        self,
        definition: ServerDefinition,
        scopes: tuple[str, ...],
        listener: RedirectListener,
        show: Callable[[str], None],
        pasted: Callable[[], Awaitable[str]] | None,
    ) -> None:
        self._definition = definition
        self._scopes = scopes
        self._listener = listener
        self._show = show
        self._pasted = pasted
        self._state = ""
        self._tokens: OAuthToken | None = None
        self._provider = OAuthClientProvider(
            server_url=definition.url,
            client_metadata=OAuthClientMetadata.model_validate(
                {
                    "client_name": "agent-cli",
                    "redirect_uris": [listener.address],
                    "grant_types": ["authorization_code", "refresh_token"],
                    "response_types": ["code"],
                    "token_endpoint_auth_method": "none",
                }
            ),
            storage=self,
            redirect_handler=self._redirect,
            callback_handler=self._callback,
        )

    async def run(self) -> StoredLogin:
        """Make the server request a login, and log in."""
        transport = _LoginTransport(self._definition, self._scopes)
        headers = {"mcp-protocol-version": LATEST_HANDSHAKE_VERSION, **self._definition.headers}
        headers["accept"] = "application/json, text/event-stream"
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                httpx2.AsyncClient(
                    transport=transport,
                    auth=self._provider,
                    headers=headers,
                    trust_env=False,
                    timeout=httpx2.Timeout(_TIMEOUT_S),
                )
            )
            method = "GET" if self._definition.transport == "sse" else "POST"
            content: dict[str, Any] = {} if method == "GET" else {"json": _HELLO}
            sent = client.stream(method, self._definition.url, follow_redirects=False, **content)
            status = (await stack.enter_async_context(sent)).status_code
        if self._tokens is None:
            raise ServerError(f"asks for no login: it answered with HTTP {status}")
        if status in (401, 403):
            raise ServerError(f"does not accept the token that its login gave (HTTP {status})")
        return self._found(self._tokens)

    def _found(self, given: OAuthToken) -> StoredLogin:
        context = self._provider.context
        client, metadata = context.client_info, context.oauth_metadata
        assert client is not None and metadata is not None  # otherwise `_redirect` would have raised
        return StoredLogin(
            issuer=str(metadata.issuer),
            resource=context.get_resource_url(),
            token_endpoint=str(metadata.token_endpoint),
            client_id=str(client.client_id),
            client_secret=client.client_secret or "",
            token_endpoint_auth_method=client.token_endpoint_auth_method or "none",
            access_token=given.access_token,
            refresh_token=given.refresh_token or "",
            expires_at=expiry(given.expires_in),
            scope=given.scope or "",
        )

    # The storage interface of the provider

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return _own_client(self._definition, self._listener.address)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass

    async def _redirect(self, address: str) -> None:
        _check_metadata(self._provider.context.oauth_metadata)
        self._state = parse_qs(urlsplit(address).query)["state"][0]
        self._show(address)

    async def _callback(self) -> AuthorizationCodeResult:
        found = await self._listener.answer(self._state, self._pasted)
        if problem := found.get("error"):
            said = found.get("error_description", "")
            raise ServerError(f"refused the login: {problem} {said}".strip())
        if found.get("state") != self._state:
            raise ServerError("sent back an address of another login: its `state` is not the one that was sent")
        return AuthorizationCodeResult(code=found.get("code", ""), state=found["state"], iss=found.get("iss"))

    def in_words(self, error: BaseException) -> str:
        """Return what went wrong, without secrets."""
        cause = innermost(error)
        where = f"The MCP server {self._definition.name} ({shown_url(self._definition.url)})"
        match cause:
            case ServerError():
                return f"{where} {cause}".rstrip(".") + "."
            case OAuthRegistrationError():
                return (
                    f"{where}: its authorization server registers no clients: {self._shown(cause)}. Set `oauth:"
                    " {client_id: …}` of the server to the id of a client that is registered there."
                )
            case OAuthFlowError():
                return f"{where}: the login failed: {self._shown(cause)}."
            case ValidationError():
                return f"{where}: its authorization server sent metadata that is not valid."
            case _:
                failure: HttpFailure = of_exception(error)
                return f"{where} or its authorization server {failure.words}."

    def _shown(self, error: BaseException) -> str:
        text = " ".join(str(error).split())
        secrets = [self._state, *self._listener.secrets]
        if self._tokens is not None:
            secrets += [self._tokens.access_token, self._tokens.refresh_token or ""]
        for secret in filter(None, secrets):
            text = text.replace(secret, "…")
        return text[:_MOST_CHARS].rstrip(".")


class _LoginTransport(MessageTransport):
    """Transport to the server and its authorization server. Responses reach the SDK unchanged, except that a
    demand for a login names the scopes that are wanted here, so that the client is registered for them too."""

    def __init__(self, definition: ServerDefinition, scopes: tuple[str, ...]) -> None:
        super().__init__(definition, os.environ)
        self._scopes = scopes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        _check_address(str(request.url), "is asked to send its login to")
        response = await self._way(str(request.url)).handle_async_request(request)
        if response.status_code == 401 and self._scopes:
            rest = _SCOPE.sub("", response.headers.get("www-authenticate", "Bearer"))
            response.headers["www-authenticate"] = f'{rest} scope="{" ".join(self._scopes)}"'
        return response


def _scopes(definition: ServerDefinition, earlier: StoredLogin | None) -> tuple[str, ...]:
    """Return the scopes to request: the user's, or those of a login that lacked one; empty for the server's."""
    if definition.oauth.scopes or earlier is None or not earlier.missing_scope:
        return definition.oauth.scopes
    return tuple(dict.fromkeys([*earlier.scope.split(), *earlier.missing_scope.split()]))


def _own_client(definition: ServerDefinition, address: str) -> OAuthClientInformationFull | None:
    """Return the client that the user has registered. Without one, each login registers its own: the server may
    have forgotten an earlier one, and would say so only in the browser."""
    settings = definition.oauth
    if not settings.client_id:
        return None
    given: dict[str, Any] = {
        "client_id": settings.client_id,
        "client_secret": settings.client_secret or None,
        "token_endpoint_auth_method": "client_secret_post" if settings.client_secret else "none",
    }
    return OAuthClientInformationFull.model_validate({**given, "redirect_uris": [address]})


def _check_metadata(metadata: OAuthMetadata | None) -> None:
    """Check that a login at the authorization server is safe."""
    if metadata is None:
        raise ServerError("does not say how to log in: its authorization server has no metadata")
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise ServerError(
            "has an authorization server that does not support PKCE with S256; no login is safe there"
        )
    _check_address(str(metadata.authorization_endpoint), "has its login at")
    _check_address(str(metadata.token_endpoint), "gives tokens at")


def _check_address(url: str, what: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ServerError(f"{what} {shown_url(url)}, which is not encrypted")
