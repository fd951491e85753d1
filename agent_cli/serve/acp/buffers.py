"""The editor's files, including unsaved text, as far as the client offers them."""

import asyncio
from collections.abc import Callable
from typing import Any

from ..jsonrpc.messages import Disconnected, RpcError
from ..jsonrpc.peer import Peer
from ..sessions.host import Buffers
from .wire import ClientAbilities

_WAIT_S = 5.0
_UNPROTECTED = (
    f"The editor has not answered within {_WAIT_S:g} s about a file. From now on this session reads and writes"
    " files as they are on disk, and does not notice unsaved text. Save your files, or close the session and open"
    " it again."
)


class EditorBuffers(Buffers):
    """Reads and writes through the editor. After a timeout the editor is not asked again."""

    def __init__(self, peer: Peer, client: ClientAbilities) -> None:
        """`session_id` and `warn` are set once the session is open."""
        self.session_id = ""
        self.warn: Callable[[str], None] = lambda text: None
        """Shows a warning to the user."""
        self._peer = peer
        self._client = client
        self._is_silent = False

    async def text(self, path: str) -> str | None:
        if not self._client.reads_files:
            return None
        found = await self._asked("fs/read_text_file", {"path": path})
        content = found.get("content") if isinstance(found, dict) else None
        return content if isinstance(content, str) else None

    async def show(self, path: str, text: str) -> None:
        if self._client.writes_files:
            await self._asked("fs/write_text_file", {"path": path, "content": text})

    async def _asked(self, method: str, params: dict[str, Any]) -> Any:
        if self._is_silent or not self.session_id:
            return None
        try:
            async with asyncio.timeout(_WAIT_S):
                return await self._peer.request(method, {"sessionId": self.session_id, **params})
        except TimeoutError:
            if not self._is_silent:
                self.warn(_UNPROTECTED)
            self._is_silent = True
        except (RpcError, Disconnected):
            pass
        return None
