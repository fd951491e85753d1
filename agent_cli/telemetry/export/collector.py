"""Send spans to a collector in the background: a bounded queue, one request at a time, and a file for spans that
could not be sent. A dead, slow or refusing collector delays no turn, and the end by at most two seconds."""

import asyncio
import contextlib
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from socket import getaddrinfo
from typing import Any
from urllib.parse import urljoin

from agent_cli.config.schema import Timeouts
from agent_cli.fs.files import make_private
from agent_cli.model.transport.connection_errors import Unreachable, usable_proxy
from agent_cli.model.transport.hops import target_of
from agent_cli.model.transport.http import Connection
from agent_cli.model.types.base import ModelError
from agent_cli.protocol.hints import Hint
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.sanitize import clean

from .otlp_json import Envelope
from .otlp_settings import OtlpSettings, shown_address
from .trace_file import append_requests

FLUSH_S = 2.0
"""Seconds that the end of a session may wait for a collector."""
MOST_QUEUED = 2048
"""Maximum number of queued spans; further ones go to the file."""
_BATCH = 256
"""Maximum number of spans in a request."""
MOST_BYTES = 4 << 20
"""Maximum size of a request in bytes; collectors refuse much longer ones."""
_MOST_QUEUED_BYTES = 32 << 20
PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Pauses between requests, indexed by the number of failures in a row."""
_TRY_AGAIN = frozenset({429, 502, 503, 504})
"""Status codes for which a collector accepts a retry."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_ANSWER = 65_536
_MOST_ADDRESS = 200


class NotTakenError(Exception):
    """A collector did not accept spans; the text says why."""

    def __init__(
        self, why: str, *, lasting: bool = False, hangs: bool = False, status: int = 0, hint: Hint | None = None
    ) -> None:
        super().__init__(why)
        self.lasting = lasting
        """True if a retry would also fail."""
        self.hangs = hangs
        """True if there was no response in time."""
        self.status = status
        """HTTP status; 0 if there was no response."""
        self.hint = hint
        """Advice for the user."""


class CollectorLink:
    """Posts requests to a collector."""

    def __init__(self, settings: OtlpSettings, resolve: Callable[[str, int], object] = getaddrinfo) -> None:
        """`resolve` looks up the addresses of a host; it may hang."""
        self.settings = settings
        self._resolve = resolve
        self._connection: Connection | None = None
        self.rejected = 0
        """Number of spans rejected from requests that were accepted."""

    async def send(self, request: bytes) -> None:
        """Send a request given in JSON, in the configured encoding.

        Raises:
            NotTakenError: it was not accepted.
        """
        is_json = self.settings.protocol == "http/json"
        try:
            content = request if is_json else await asyncio.to_thread(_protobuf, request)
            async with asyncio.timeout(self.settings.timeout_s):
                connection = self._connection or await self._opened()
                async with connection.post("", content) as response:
                    status, answer = response.status, await response.beginning(_MOST_ANSWER)
                    location = response.headers.get("location", "")
        except TimeoutError:
            raise NotTakenError(f"no answer within {self.settings.timeout_s:g} s", hangs=True) from None
        except ModelError as error:
            hangs = error.kind in ("stalled", "timeout")
            if isinstance(error, Unreachable):
                raise NotTakenError(str(error), lasting=error.lasting, hangs=hangs, hint=error.hint) from error
            raise NotTakenError(str(error), hangs=hangs) from error
        except (OSError, ValueError, ImportError) as error:
            raise NotTakenError(type(error).__name__) from error
        if not 200 <= status < 300:
            raise _not_taken(status, self.settings, location)
        with contextlib.suppress(Exception):  # the spans are accepted, whatever else the response says
            self.rejected += _rejected(answer, is_json=is_json)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.aclose()

    async def _opened(self) -> Connection:
        kind = "json" if self.settings.protocol == "http/json" else "x-protobuf"
        headers: Mapping[str, str] = {**self.settings.headers, "content-type": f"application/{kind}"}
        timeouts = Timeouts(first_byte_s=self.settings.timeout_s)
        via, target = usable_proxy(self.settings.endpoint), target_of(self.settings.endpoint)
        place = (via.host, via.port) if via is not None else (target.host, target.port)
        await _in_a_thread(partial(self._resolve, *place))
        self._connection = Connection(self.settings.endpoint, headers, timeouts)
        return self._connection


class Collector:
    """Sends the spans of a session."""

    def __init__(
        self,
        link: CollectorLink,
        envelope: Envelope,
        unsent: Callable[[], Path],
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        """`unsent` creates the file for unsent spans; it is called only when needed."""
        self._pauses_s = pauses_s
        self._link = link
        self._envelope = envelope
        self._unsent = unsent
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._sending: list[bytes] = []
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._failures = 0
        self._failure: NotTakenError | None = None
        self._since: float | None = None
        """Start time of the running request, on the clock of the event loop."""
        self._is_closing = False
        self.kept = 0
        """Number of spans written to the file."""
        self.lost = 0
        """Number of spans that could not be written to the file either."""
        self.file: Path | None = None

    def add(self, span: bytes) -> None:
        """Add a span, encoded in JSON; never blocks."""
        self._queue.append(span)
        self._queued_bytes += len(span)
        if self._queued_bytes > _MOST_QUEUED_BYTES:
            self._keep(self._taken(len(self._queue)))
        if self._failure is not None and self._failure.lasting:
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        elif len(self._queue) >= _BATCH:
            self._woken.set()
        if len(self._queue) > MOST_QUEUED:
            self._keep(self._taken(MOST_QUEUED // 2))

    async def aclose(self) -> None:
        """Send the remaining spans, for at most `FLUSH_S`, and write the rest to the file. A request that has
        already hung for longer is not awaited."""
        self._is_closing = True
        self._woken.set()
        if self._task is None and self._queue and self._failure is None:
            self._task = asyncio.create_task(self._run())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._patience_s())
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._keep([*self._sending, *self._taken(len(self._queue))])
        self._sending = []
        await self._link.aclose()

    @property
    def report(self) -> str:
        """Message for the user at the end; empty if all spans were accepted."""
        place = self._link.settings.place
        said = []
        if self.kept:
            why = f" ({self._failure})" if self._failure is not None else ""
            said.append(
                f"{_spans(self.kept)} could not be sent to {place}{why}; "
                f"`agent trace send {shlex.quote(str(self.file))}` sends them"
            )
        if self.lost:
            said.append(f"{_spans(self.lost)} could be neither sent to {place} nor kept")
        if self._link.rejected:
            said.append(f"{place} has refused {_spans(self._link.rejected)}")
        return "; ".join(said)

    def _patience_s(self) -> float:
        waited_s = 0.0 if self._since is None else asyncio.get_running_loop().time() - self._since
        if self._failure is not None and (self._failure.hangs or self._failure.lasting):
            return 0.0
        return max(0.0, FLUSH_S - waited_s)

    async def _run(self) -> None:
        while not self._is_closing or self._queue or self._sending:
            if not self._is_closing:
                await self._pause()
            if not self._sending:
                self._sending = self._taken(_together(self._queue))
            if self._sending and not await self._sent():
                return

    async def _sent(self) -> bool:
        """Send a batch; return False if no more are to be sent."""
        self._since = asyncio.get_running_loop().time()
        try:
            await self._link.send(self._envelope.around(self._sending))
        except NotTakenError as error:
            self._failure = error
            self._failures += 1
            if error.lasting:
                self._keep([*self._sending, *self._taken(len(self._queue))])
                self._sending = []
            return not (error.lasting or self._is_closing)
        finally:
            self._since = None
        self._sending, self._failure, self._failures = [], None, 0
        return True

    async def _pause(self) -> None:
        """Wait until there is enough to send, or for the pause after a failure."""
        pause_s = self._pauses_s[min(self._failures, len(self._pauses_s) - 1)]
        until = asyncio.get_running_loop().time() + pause_s
        while not self._is_closing and (left_s := until - asyncio.get_running_loop().time()) > 0:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._woken.wait()
            if not self._failures and len(self._queue) >= _BATCH:
                return

    def _taken(self, count: int) -> list[bytes]:
        """Take spans from the queue, oldest first."""
        found = [self._queue.popleft() for _ in range(count)]
        self._queued_bytes -= sum(map(len, found))
        return found

    def _keep(self, spans: list[bytes]) -> None:
        """Write spans to the file, one request each, so that `deliver` can regroup them for any collector."""
        left = deque(spans)
        while left:
            part = [left.popleft() for _ in range(_together(left))]
            try:
                self._append(b"".join(self._envelope.around((span,)) + b"\n" for span in part))
            except OSError:
                self.lost += len(part)
            else:
                self.kept += len(part)

    def _append(self, lines: bytes) -> None:
        """Append lines to the file, or to a new one if another program is sending it, so that nothing blocks.

        Raises:
            OSError: they cannot be written.
        """
        if self.file is not None:
            with contextlib.suppress(TimeoutError):
                return append_requests(self.file, lines, 0)
        self.file = self._unsent()
        append_requests(self.file, lines, 0)


def _together(spans: Iterable[bytes]) -> int:
    """Return how many of the first spans fit into one request."""
    count = size = 0
    for span in spans:
        size += len(span)
        if count >= _BATCH or (count and size > MOST_BYTES):
            break
        count += 1
    return count


def _not_taken(status: int, settings: OtlpSettings, location: str) -> NotTakenError:
    """Return the error for a status. A redirect is not followed: the headers may contain a key meant only for the
    configured address."""
    why = f"HTTP status {status}"
    if status in _REDIRECTS:
        why += f", a redirect, which is not followed{_leads_to(settings.endpoint, location)}"
    return NotTakenError(why, lasting=status not in _TRY_AGAIN, status=status)


def _leads_to(endpoint: str, location: str) -> str:
    try:
        place = shown_address(urljoin(endpoint, location)) if location else ""
    except ValueError:
        return ""
    if not place:
        return ""
    shown = clean(place)[:_MOST_ADDRESS]
    return f"; it leads to {shown}: set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT to that if you trust it"


async def _in_a_thread(look_up: Callable[[], object]) -> None:
    """Run a lookup that may hang, in a thread that does not delay the end of the program, unlike the event loop's
    threads. A failure is ignored: it recurs in the actual request."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        with contextlib.suppress(OSError):
            look_up()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True).start()
    await done.wait()


def unsent_file(folder: Path, session_id: str) -> Path:
    """Return the path of a new file for unsent spans, and create its folder.

    Raises:
        OSError: the folder cannot be created.
    """
    make_private(folder)
    return folder / f"{session_id}-{time.time_ns() // 1_000_000:x}.jsonl"


def _spans(count: int) -> str:
    return f"{count} span{'s' if count != 1 else ''}"


def _protobuf(request: bytes) -> bytes:
    from .otlp_protobuf import to_protobuf

    return to_protobuf(request)


def _rejected(answer: bytes, *, is_json: bool) -> int:
    if not is_json:
        from .otlp_protobuf import rejected_spans

        return rejected_spans(answer)
    value: Any = decode_json(answer)
    return max(0, int((value.get("partialSuccess") or {}).get("rejectedSpans") or 0))
