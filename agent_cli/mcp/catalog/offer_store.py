"""The last offer of each server and the definitions the user has approved, on disk."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import file_lock, read_regular, replace_file
from agent_cli.protocol.json_text import decode_json

from ..types.definition import ServerDefinition
from ..types.offer import Offer, ToolDefinition

_MAX_BYTES = 64_000_000
_LOCK_S = 2.0
"""Maximum wait for another process, which holds the lock only during one write."""


class KnownServer(msgspec.Struct, frozen=True):
    """Known facts about a server from earlier connections."""

    name: str
    address: str
    offer: Offer
    approved: dict[str, ToolDefinition]
    """Tools by name, as they were when the server was first seen, or as the user has approved them since."""
    instructions: str | None = None
    """Its instructions when it was first seen; None in files of versions that did not keep them."""


class OfferStore:
    """Store with one file per server, named by the fingerprint of its definition: another command, address or
    variable makes it another server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._in_session: dict[str, KnownServer] = {}
        """Known servers by fingerprint: data that cannot be saved or read again still pins definitions for this
        session.
        """

    def load(self, definition: ServerDefinition) -> KnownServer | None:
        """Return the known facts about a server; None if there are none."""
        try:
            data = read_regular(self._path(definition), _MAX_BYTES)
            return decode_json(data, type=KnownServer)
        except (OSError, msgspec.DecodeError):
            return self._in_session.get(definition.fingerprint)

    def remember(self, definition: ServerDefinition, offer: Offer) -> KnownServer:
        """Save what a server offers. The tools and instructions of its first connection count as approved; later
        additions and changes do not, and nothing does if the approved definitions cannot be read any more.

        If saving fails, the data is known for this session only.
        """
        with self._locked(definition):
            earlier = self.load(definition)
            first = {tool.name: tool for tool in reversed(offer.tools)}  # of two with one name the first counts
            is_damaged = earlier is None and self._path(definition).exists()
            approved = {} if is_damaged else first if earlier is None else earlier.approved
            known = KnownServer(
                definition.name, definition.address, offer, approved,
                "" if is_damaged else offer.instructions if earlier is None else _instructions(earlier),
            )  # fmt: skip
            if known != earlier:
                self._write(definition, known)
            return known

    def approve(self, definition: ServerDefinition, known: KnownServer, tool: ToolDefinition) -> KnownServer:
        """Save that the user approved a tool's current definition; approvals that other sessions have made
        since are kept."""
        with self._locked(definition):
            latest = self.load(definition) or known
            now = msgspec.structs.replace(known, approved={**latest.approved, tool.name: tool})
            self._write(definition, now)
            return now

    def forget(self, definition: ServerDefinition) -> None:
        """Delete the known facts about a server, including approvals."""
        self._in_session.pop(definition.fingerprint, None)
        with contextlib.suppress(FileNotFoundError):
            self._path(definition).unlink()

    def _path(self, definition: ServerDefinition) -> Path:
        return self._folder / f"{definition.fingerprint}.json"

    def _write(self, definition: ServerDefinition, known: KnownServer) -> None:
        self._in_session[definition.fingerprint] = known
        with contextlib.suppress(OSError):
            replace_file(self._path(definition), msgspec.json.encode(known))

    @contextlib.contextmanager
    def _locked(self, definition: ServerDefinition) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            # A state folder that cannot be written must not prevent servers from working.
            with contextlib.suppress(OSError):
                held.enter_context(file_lock(self._path(definition), _LOCK_S))
            yield


def _instructions(known: KnownServer) -> str:
    return known.offer.instructions if known.instructions is None else known.instructions
