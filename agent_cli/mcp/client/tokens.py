"""The logins at servers, on disk: one file for each address and client, readable by the user alone."""

import contextlib
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, make_private, read_regular, replace_file

from ..types.definition import ServerDefinition

_MAX_BYTES = 1_000_000
_AHEAD_S = 300.0
"""How long before its end a token is exchanged for a new one."""
_LOCK_S = 45.0


class StoredLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a login gave. It belongs to one issuer and one resource; the tokens go nowhere else."""

    issuer: str
    resource: str
    """What the token is for, as the server names itself."""
    token_endpoint: str
    client_id: str
    client_secret: str = ""
    token_endpoint_auth_method: str = "none"
    redirect_port: int = 0
    """The port that the client is registered with; 0 where it was not registered by us."""
    access_token: str = ""
    refresh_token: str = ""
    expires_at: float = 0.0
    """Seconds since 1970; 0 when the server did not say."""
    scope: str = ""

    def __repr__(self) -> str:
        """Without secrets."""
        return f"StoredLogin({self.issuer!r}, {self.resource!r})"

    def is_stale(self, now: float) -> bool:
        """Return whether the access token has ended, or ends soon."""
        return not self.access_token or bool(self.expires_at and now > self.expires_at - _AHEAD_S)

    def is_over(self, now: float) -> bool:
        """Return whether the access token is of no use any more."""
        return not self.access_token or bool(self.expires_at and now > self.expires_at)

    def without_tokens(self) -> "StoredLogin":
        """Return the registration alone."""
        return msgspec.structs.replace(self, access_token="", refresh_token="", expires_at=0.0)


class TokenStore:
    """The logins under a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, definition: ServerDefinition) -> StoredLogin | None:
        """Return the login at a server; None when there is none that can be read."""
        try:
            return msgspec.json.decode(read_regular(self._path(definition), _MAX_BYTES), type=StoredLogin)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, definition: ServerDefinition, login: StoredLogin) -> None:
        """Keep a login in the place of an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        make_private(self._folder)
        replace_file(self._path(definition), msgspec.json.encode(login), durable=True)

    def forget(self, definition: ServerDefinition) -> bool:
        """Drop the login at a server; whether there was one."""
        with self.locked(definition):
            had = self._path(definition).exists()
            with contextlib.suppress(FileNotFoundError):
                self._path(definition).unlink()
        return had

    @contextlib.contextmanager
    def locked(self, definition: ServerDefinition) -> Iterator[None]:
        """Keep every other program from changing the login meanwhile.

        Raises:
            OSError: the folder cannot be written, or another program keeps it locked.
        """
        with file_lock(self._path(definition), _LOCK_S):
            yield

    def _path(self, definition: ServerDefinition) -> Path:
        key = msgspec.json.encode((definition.url, definition.oauth.client_id))
        return self._folder / f"{hashlib.sha256(key).hexdigest()[:32]}.json"


def expiry(expires_in: float | None) -> float:
    """Return when a token ends that is good for so many seconds; 0 when that is not known."""
    return time.time() + expires_in if expires_in else 0.0
