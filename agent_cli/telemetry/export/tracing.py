"""The tracing of a session: build its spans, and write and send them as configured. Imported only if something is
traced; no failure in here reaches the session."""

import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.config.dirs import unsent_traces_dir
from agent_cli.protocol.events import AnyEvent, ReasoningDelta, TextDelta, ToolOutput
from agent_cli.protocol.records import ModelCalled

from ..content import Content, ContentKind
from ..span import Span
from ..spans import SpanBuilder
from ..traceparent import command_env, parent_in
from . import otlp_json
from .otlp_settings import OtlpError, has_protobuf, is_switched_on, otlp_settings, resource_attributes

if TYPE_CHECKING:
    from .collector import Collector
    from .trace_file import SpanFile


class Tracing:
    """Observes a session, and exports its spans to a file, a collector or both."""

    def __init__(
        self, builder: Callable[[Callable[[Span], None]], SpanBuilder], file: "SpanFile | None" = None,
        collector: "Collector | None" = None, notes: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._builder = builder(self._told)
        self._file = file
        self._collector = collector
        self.notes = notes
        """Messages for the user when the session opens."""
        self._unwritten = 0
        """Number of spans missing in the file."""
        self._problem = ""
        """Why they are missing, or another problem with the file."""
        self._failure = ""

    def event(self, event: AnyEvent) -> None:
        """Process an event. Never raises."""
        if isinstance(event, TextDelta | ReasoningDelta | ToolOutput):
            return
        try:
            self._builder.event(event)
        except Exception as error:  # tracing must not affect a turn
            self._failure = type(error).__name__

    def book(self, entry: ModelCalled) -> None:
        """Process an entry of the session's ledger. Never raises."""
        try:
            self._builder.book(entry)
        except Exception as error:
            self._failure = type(error).__name__

    def environment(self, agent_id: str, env: Mapping[str, str], call_id: str) -> dict[str, str]:
        """Return the environment of a command, with the span of its tool call as parent of its own spans."""
        return command_env(env, *self._builder.ids_of(agent_id, call_id))

    async def aclose(self) -> str:
        """End open spans and deliver everything within two seconds; return a message for the user."""
        with contextlib.suppress(Exception):
            self._builder.close(time.time())
        said = [self._closed_file()]
        if self._collector is not None:
            collector, self._collector = self._collector, None
            await collector.aclose()
            said.append(collector.report)
        if self._failure:
            said.append(f"the trace may lack spans, for a fault of the agent's own ({self._failure})")
        return "; ".join(filter(None, said))

    def _told(self, span: Span) -> None:
        data = otlp_json.encoded(span)
        if self._file is not None:
            try:
                self._file.add(span, data)
            except OSError as error:  # there may be room for the next one
                self._unwritten += 1
                self._problem = error.strerror or type(error).__name__
        if self._collector is not None:
            self._collector.add(data)

    def _closed_file(self) -> str:
        """Close the file; return a message about missing spans."""
        if self._file is None:
            return ""
        file, self._file = self._file, None
        try:
            file.close()
        except OSError as error:
            self._problem = self._problem or error.strerror or type(error).__name__
        if not self._problem:
            return ""
        lacks = f"lacks {self._unwritten} span{'s' if self._unwritten != 1 else ''}" if self._unwritten else ""
        return f"the trace {file.path} {lacks or 'lacks its end'}: {self._problem}"


def open_tracing(
    trace_file: str | None, otlp: bool, content: Collection[ContentKind], state: Path, session_id: str,
    env: Mapping[str, str] = os.environ,
) -> Tracing | None:  # fmt: skip
    """Return the requested tracing; None if there is none. An unusable collector causes only a note, so that work
    can continue.

    Raises:
        trace_file.TraceFileError: the file cannot be written.
    """
    is_sent = is_switched_on(otlp, env)
    if not trace_file and not is_sent:
        return None
    resource = otlp_json.resource_of(resource_attributes(env) if is_sent else None)
    collector: Collector | None = None
    notes: tuple[str, ...] = ()
    if is_sent:
        from .collector import Collector as OtlpCollector
        from .collector import CollectorLink, unsent_file

        try:
            settings = otlp_settings(env, protobuf=has_protobuf())
            collector = OtlpCollector(
                CollectorLink(settings),
                otlp_json.Envelope(resource),
                lambda: unsent_file(unsent_traces_dir(state), session_id),
            )
        except OtlpError as error:
            notes = (f"traces are not sent: {error}",)
    file = None
    if trace_file:
        from .trace_file import open_trace

        file = open_trace(Path(os.path.expanduser(trace_file)).absolute(), resource)
    parent = parent_in(env)
    return Tracing(lambda tell: SpanBuilder(tell, parent, Content(content)), file, collector, notes)
