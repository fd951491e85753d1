"""The logins at servers, on disk: one file per address and client, readable only by the user."""

import contextlib
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, make_private, read_regular, replace_file
from agent_cli.protocol.json_text import decode_json

from ..types.definition import ServerDefinition

_MAX_BYTES = 1_000_000
_AHEAD_S = 30.0
"""Time before its expiry at which a token is refreshed; less than the few minutes that many tokens live."""
_LOCK_S = 45.0


class StoredLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a login. It belongs to one issuer and one resource; the tokens are sent nowhere else."""

    issuer: str
    resource: str
    """The token's audience, as the server identifies itself."""
    token_endpoint: str
    client_id: str
    client_secret: str = ""
    token_endpoint_auth_method: str = "none"
    access_token: str = ""
    refresh_token: str = ""
    expires_at: float = 0.0
    """Seconds since the epoch; 0 if the server did not say."""
    scope: str = ""
    missing_scope: str = ""
    """What the server demanded beyond `scope`; the next login requests both."""

    def __repr__(self) -> str:
        """Return a representation without secrets."""
        return f"StoredLogin({self.issuer!r}, {self.resource!r})"

    def is_stale(self, now: float) -> bool:
        """Return True if the access token has expired or expires soon."""
        return not self.access_token or bool(self.expires_at and now > self.expires_at - _AHEAD_S)

    def without_tokens(self) -> "StoredLogin":
        """Return the registration alone."""
        return msgspec.structs.replace(self, access_token="", refresh_token="", expires_at=0.0)


class TokenStore:
    """The logins under a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, definition: ServerDefinition) -> StoredLogin | None:
        """Return the login at a server; None if there is none or it cannot be read."""
        try:
            return decode_json(read_regular(self._path(definition), _MAX_BYTES), type=StoredLogin)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, definition: ServerDefinition, login: StoredLogin) -> None:
        """Save a login, replacing an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        make_private(self._folder)
        replace_file(self._path(definition), msgspec.json.encode(login), durable=True)

    def forget(self, definition: ServerDefinition) -> bool:
        """Delete the login at a server; return True if there was one."""
        with self.locked(definition):
            had = self._path(definition).exists()
            with contextlib.suppress(FileNotFoundError):
                self._path(definition).unlink()
        return had

    @contextlib.contextmanager
    def locked(self, definition: ServerDefinition) -> Iterator[None]:
        """Prevent other programs from changing the login during the block.

        Raises:
            OSError: the folder cannot be written, or another program keeps it locked.
        """
        with file_lock(self._path(definition), _LOCK_S):
            yield

    def _path(self, definition: ServerDefinition) -> Path:
        key = msgspec.json.encode((definition.url, definition.oauth.client_id))
        return self._folder / f"{hashlib.sha256(key).hexdigest()[:32]}.json"


def expiry(expires_in: float | None) -> float:
    """Return the expiry time of a token valid for this many seconds; 0 if unknown."""
    return time.time() + expires_in if expires_in else 0.0
