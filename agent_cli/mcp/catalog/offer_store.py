"""What each server offered last, and the definitions that the user has approved, on disk."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file

from ..types.definition import ServerDefinition
from ..types.offer import Offer, ToolDefinition

_MAX_BYTES = 64_000_000


class KnownServer(msgspec.Struct, frozen=True):
    """What is known of a server from earlier connections."""

    name: str
    address: str
    offer: Offer
    approved: dict[str, ToolDefinition]
    """By name: the tools as they were when the server was first seen, or as the user has approved them since."""


class OfferStore:
    """A file for each server, named by the fingerprint of its definition: another command, address or variable is
    another server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, definition: ServerDefinition) -> KnownServer | None:
        """Return what is known of a server; None when nothing is, or the file cannot be read."""
        try:
            data = read_regular(self._path(definition), _MAX_BYTES)
            return msgspec.json.decode(data, type=KnownServer)
        except (OSError, msgspec.DecodeError):
            return None

    def remember(self, definition: ServerDefinition, offer: Offer) -> KnownServer:
        """Save what a server offers. The tools of its first connection count as approved; those that come or
        change later do not.

        What cannot be saved is known for this session only.
        """
        with self._locked(definition):
            earlier = self.load(definition)
            approved = {tool.name: tool for tool in offer.tools} if earlier is None else earlier.approved
            known = KnownServer(definition.name, definition.address, offer, approved)
            if known != earlier:
                self._write(definition, known)
            return known

    def approve(self, definition: ServerDefinition, known: KnownServer, tool: ToolDefinition) -> KnownServer:
        """Save that the user approved a tool as it is now."""
        with self._locked(definition):
            latest = self.load(definition) or known
            now = msgspec.structs.replace(latest, approved={**latest.approved, tool.name: tool})
            self._write(definition, now)
            return now

    def forget(self, definition: ServerDefinition) -> None:
        """Drop what is known of a server, the approvals included."""
        with contextlib.suppress(FileNotFoundError):
            self._path(definition).unlink()

    def _path(self, definition: ServerDefinition) -> Path:
        return self._folder / f"{definition.fingerprint}.json"

    def _write(self, definition: ServerDefinition, known: KnownServer) -> None:
        with contextlib.suppress(OSError):
            replace_file(self._path(definition), msgspec.json.encode(known))

    @contextlib.contextmanager
    def _locked(self, definition: ServerDefinition) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            with contextlib.suppress(
                OSError
            ):  # a state folder that cannot be written keeps no server from working
                held.enter_context(file_lock(self._path(definition)))
            yield
