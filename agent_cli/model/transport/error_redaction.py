"""Redact secrets in error messages: servers repeat keys, libraries repeat addresses and headers."""

import base64
import contextlib
from collections.abc import Iterator
from urllib.parse import quote, unquote

from ..types.base import ModelError
from ..types.json import join_surrogates
from ..types.provider_table import Route

_SHOWN = "***"
_SHORTEST = 6
"""Minimum length of a secret in characters; shorter values are ordinary words whose removal would garble
messages."""


class ErrorRedactor:
    """The secrets of one route."""

    def __init__(self, route: Route) -> None:
        login = route.base_url.partition("://")[2].rpartition("@")[0]
        found = {route.api_key, *route.headers.values(), *_spellings(login)}
        found |= {
            value.partition(" ")[2]  # after `Bearer`
            for name, value in route.headers.items()
            if name.lower().endswith("authorization")
        }
        secrets = {each.strip() for each in found}
        self._secrets = sorted((each for each in secrets if len(each) >= _SHORTEST), key=len, reverse=True)
        self._login = f"//{login}@" if login else ""

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Redact errors that leave the block and replace characters that cannot be encoded."""
        try:
            yield
        except ModelError as error:
            error.message = self.masked(error.message)
            error.args = (error.message,)
            error.request_id = error.request_id and self.masked(error.request_id)
            raise

    def masked(self, text: str) -> str:
        """Return a text without the secrets, and without characters that cannot be encoded."""
        text = join_surrogates(text)
        if self._login:
            text = text.replace(self._login, f"//{_SHOWN}@")
        for secret in self._secrets:
            text = text.replace(secret, _SHOWN)
        return text


def _spellings(login: str) -> Iterator[str]:
    """Yield USER:PASSWORD of a URL in every form in which it may be repeated."""
    password = login.partition(":")[2]
    for text in (login, password):
        yield text
        yield unquote(text)
    yield quote(unquote(password), safe="")
    yield base64.b64encode(unquote(login).encode("utf-8", "replace")).decode()
