"""Ollama's own chat endpoint. Separate from Chat Completions because only here can the context window be
requested: by default Ollama uses a small one and cuts long conversations silently.

`truncate` and `shift` are switched off, so that a request that is too long is refused; older servers that do not
know them are never sent one.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import Finish, Message, Reasoning
from agent_cli.protocol.usage import CHARS_PER_TOKEN, Usage

from ...catalog.server_facts import OLLAMA_WINDOW
from ...catalog.server_query import CapabilityProbe
from ...text_calls.prompt import TOOLS_FALLBACK
from ...types.base import (
    CallPiece,
    CallStart,
    Fallback,
    LearnedLimits,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
    takes_pictures,
)
from ...types.classify import no_answer
from ...types.info import ModelInfo
from ...types.json import Json, join_surrogates, text_of
from ...types.provider_table import Route
from ..dialect import Dialect, EncodedRequest, known_effort
from ..event_stream import Chunks, EventStream, SurrogateJoiner, count_of, streamed_json
from ..part_cache import PartCache
from ..think_tags import ThinkTags
from ..unsupported_parts import ANSWER_SCHEMA, ELSEWHERE, THINKING, picture_fallbacks, schema_fallback
from .request import chat_messages, fitting, tool_json

_MOST_CHARS_A_TOKEN = 6
"""More than any ordinary text has, so that a request is rejected as too long only if it certainly is."""
_FINISHES: dict[str, Finish] = {"stop": "stop", "done": "stop", "length": "length"}
_NO_THINKING = "This model takes no effort of thinking; it is left out from now on."


class OllamaDialect(Dialect):
    """`POST /api/chat`."""

    path = "/api/chat"
    lists = "messages"
    fallbacks: tuple[Fallback, ...] = (
        schema_fallback(r"\bformat\b|\bgrammar\b|json_schema"),
        TOOLS_FALLBACK,
        Fallback(
            "effort",
            lazy_regex(rf"['\"`.]think\b|{THINKING}", re.IGNORECASE),
            _NO_THINKING,
            elsewhere=ELSEWHERE,
        ),
        *picture_fallbacks(400, 422, 500),
    )

    def __init__(self, route: Route, probe: CapabilityProbe) -> None:
        """Create a dialect. `probe` holds what the server has reported about the model."""
        super().__init__(route)
        self._probe = probe
        self._sent_chars = 0
        self._kept: PartCache[Message, Json] = PartCache()

    def write(self, request: ModelRequest, learned: LearnedLimits) -> EncodedRequest:
        info = self._probe.info
        window = info.context_window or OLLAMA_WINDOW
        options: Json = {"num_ctx": window}
        if request.max_output_tokens is not None:
            options["num_predict"] = request.max_output_tokens
        body: Json = {"model": self._route.model, "stream": True, "truncate": False, "shift": False}
        body["options"] = options
        if "effort" not in learned.refused and (think := _think(request.effort, info, self._route)) is not None:
            body["think"] = think
        if request.tools:
            body["tools"] = [tool_json(tool) for tool in request.tools]
        pictures = takes_pictures(learned) and info.images is not False
        quirks = msgspec.structs.replace(fitting(self._route.quirks, learned), reasoning_field="reasoning_content")
        pairs = list(chat_messages(request, quirks, self._route, self._kept, pictures=pictures))
        names: dict[str, str] = {}
        body["messages"] = [_own(message, names) for _, message in pairs]
        if request.answer_schema is not None:
            from ..answer_format import answer_format

            if form := answer_format(request, quirks, learned):
                body["format"] = form.schema
        self._sent_chars = _size(body)
        _check_size(self._sent_chars, window, self._route)
        return EncodedRequest(body, tuple(source for source, _ in pairs))

    def sends(self, fallback: Fallback, body: Json) -> bool:
        if fallback.name in ("images", "pictures"):
            return any("images" in message for message in body["messages"])
        return {"effort": "think", ANSWER_SCHEMA: "format"}.get(fallback.name, fallback.name) in body

    def reader(self) -> "OllamaReader":
        return OllamaReader(self._route.provider, self._read)

    def _read(self, usage: Usage) -> None:
        """Notify the user if the server has cut the request. Its count of tokens read may exclude cached ones, so
        a small count proves nothing; cut requests fill half of the window or more."""
        window, read = self._probe.info.context_window, usage.input
        about = self._sent_chars // CHARS_PER_TOKEN
        if window is None or read is None or usage.cache_read is not None:
            return
        if about > 0.8 * window and 0.45 * window <= read < 0.6 * about:
            self._probe.tell(
                f"Ollama read {read:,} tokens of about {about:,}: it has probably cut the beginning of the "
                "conversation. Update Ollama, or give this model a larger `context_window`."
            )


class _Lines(Chunks):
    """Splits bytes into JSON objects, one per line."""

    def __init__(self) -> None:
        super().__init__()
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Json]:
        """Yield the objects of the lines completed by these bytes. Each byte is examined once, however long a line
        is."""
        first, *others = data.split(b"\n")
        self._rest.append(first)
        if others:
            lines = [b"".join(self._rest), *others]
            self._rest = [lines.pop()]
            yield from (streamed_json(line) for line in lines if line.strip())

    def flush(self) -> Iterator[Json]:
        """Yield the object of the last line."""
        return self.feed(b"\n")


class OllamaReader(EventStream):
    """Parser for one response: a JSON object per line, the last one with `done`."""

    end_word = "its end"

    def __init__(self, provider: str, on_usage: Callable[[Usage], None] | None = None) -> None:
        """Create a reader. `on_usage` is called with the usage of the response."""
        super().__init__(provider)
        self._on_usage = on_usage
        self._chunks = _Lines()
        self._thought = ""
        self._joiner = SurrogateJoiner()
        self._tags = ThinkTags()

    def whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events of a response that came as one object, or as lines declared as JSON.

        Raises:
            ModelError: it is an error, or not an answer.
        """
        try:
            one = streamed_json(data)
        except ModelError:
            if data.lstrip()[:1] == b"<":
                raise no_answer(data.decode("utf-8", "replace")) from None
            yield from self.feed(data)
            return
        yield from self.chunk(one)

    def _unsaid(self) -> Iterator[ModelEvent]:
        yield from self._said(*self._tags.split("", is_last=True))
        yield from self._reasoning_done()

    def chunk(self, chunk: Any) -> Iterator[ModelEvent]:
        if self._over:
            return
        if not isinstance(chunk, dict) or chunk.get("error") or not ({"message", "done"} & chunk.keys()):
            raise self._failed(chunk)
        message = chunk.get("message")
        if isinstance(message, dict):
            yield from self._message(message)
        if chunk.get("done") is True:
            self._over = True
            self._raw_finish = str(chunk.get("done_reason") or "done")
            self._finish = _FINISHES.get(self._raw_finish, "unknown")
            self.usage = read_usage(chunk)
            if self._on_usage is not None:
                self._on_usage(self.usage)
            yield UsageReport(self.usage)

    def _message(self, message: Json) -> Iterator[ModelEvent]:
        calls = message.get("tool_calls")
        yield from self._said(text_of(message.get("thinking")), "")
        text = self._joiner.join(text_of(message.get("content")))
        yield from self._said(*self._tags.split(text, is_last=bool(calls)))
        for call in calls if isinstance(calls, list) else ():
            yield from self._reasoning_done()
            yield from self._call(call)

    def _said(self, thought: str, text: str) -> Iterator[ModelEvent]:
        if thought:
            self._thought += thought
            yield ReasoningPiece(join_surrogates(thought))
        if text:
            yield from self._reasoning_done()
            yield TextPiece(text)

    def _call(self, call: Any) -> Iterator[ModelEvent]:
        """Yield the events of a call, which is always complete."""
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
        identifier = call.get("id")
        yield CallStart(
            self._calls, identifier if isinstance(identifier, str) else "", str(function.get("name") or "")
        )
        yield CallPiece(self._calls, text)
        self._calls += 1

    def _reasoning_done(self) -> Iterator[ModelEvent]:
        if self._thought:
            yield ReasoningDone(Reasoning(text=join_surrogates(self._thought), provider=self._provider))
            self._thought = ""

    def _failed(self, body: Any, status: int | None = None) -> ModelError:
        inner = _json_inside(body.get("error") if isinstance(body, dict) else None)
        return super()._failed(body if inner is None else inner, status)


def read_usage(chunk: Json) -> Usage:
    """Return the token counts of the last object. `prompt_eval_count` includes cached tokens."""
    total, cached = count_of(chunk.get("prompt_eval_count")), count_of(chunk.get("prompt_eval_cached_count"))
    fresh = total if total is None or cached is None else max(0, total - cached)
    return Usage(input=fresh, output=count_of(chunk.get("eval_count")), cache_read=cached)


def _own(message: Json, names: dict[str, str]) -> Json:
    """Convert a Chat Completions message to Ollama's form; `names` collects the tool name of each call."""
    sent: Json = {"role": message["role"], "content": ""}
    content = message.get("content")
    if isinstance(content, str):
        sent["content"] = content
    elif content:
        sent["content"] = "".join(part["text"] for part in content if part["type"] == "text")
        sent["images"] = [
            part["image_url"]["url"].partition(",")[2] for part in content if part["type"] == "image_url"
        ]
    if thought := str(message.get("reasoning_content") or "").strip():
        sent["thinking"] = thought
    if message["role"] == "tool":
        identifier = message["tool_call_id"]
        sent |= {"tool_name": names.get(identifier, ""), "tool_call_id": identifier}
    if message.get("tool_calls"):
        sent["tool_calls"] = [_own_call(call, names) for call in message["tool_calls"]]
    return sent


def _own_call(call: Json, names: dict[str, str]) -> Json:
    function = call["function"]
    names[call["id"]] = function["name"]
    arguments = decode_json(function["arguments"])
    return {"id": call["id"], "function": {"name": function["name"], "arguments": arguments}}


def _think(effort: str, info: ModelInfo, route: Route) -> bool | str | None:
    """Return the value for `think`; None leaves it to the model."""
    if not effort or info.reasoning is False:
        return None
    levels = info.efforts or (("low", "medium", "high") if "gpt-oss" in route.model else ())
    if levels:
        return known_effort(effort, levels)
    return effort != "none"


def _size(body: Json) -> int:
    """Return the number of characters of text, without images."""
    tools = len(msgspec.json.encode(body["tools"])) if "tools" in body else 0
    return tools + sum(len(message["content"]) for message in body["messages"])


def _check_size(chars: int, window: int, route: Route) -> None:
    """Check that the request may fit the window.

    Raises:
        ModelError: even the minimum number of tokens for the text exceeds the window.
    """
    least = chars // _MOST_CHARS_A_TOKEN
    if least > window:
        raise ModelError(
            "context_overflow",
            f"about {least:,} tokens or more do not fit the context length of {window:,} tokens that Ollama is "
            f"asked for; `context_window` of {route.model} under `providers.ollama.models` asks for another",
            limit_tokens=window,
        )


def _json_inside(error: Any) -> Any:
    """Return the inner error of an error that is JSON text, as Ollama passes it on from its runner."""
    if not isinstance(error, str) or not error.lstrip().startswith("{"):
        return None
    try:
        return decode_json(error)
    except msgspec.DecodeError:
        return None
