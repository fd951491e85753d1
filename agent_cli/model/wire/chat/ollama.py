"""Ollama's own chat endpoint. Apart from Chat Completions, because only here can the size of the context be
asked for: left alone, Ollama gives a model a small one and cuts long conversations without a word.

`truncate` and `shift` are switched off, so that a request that is too long is refused; servers that do not
know them yet are never sent one.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from agent_cli.protocol.messages import Reasoning
from agent_cli.protocol.usage import Usage

from ...catalog.server_facts import OLLAMA_WINDOW
from ...catalog.server_query import CapabilityProbe
from ...text_calls.prompt import TOOLS_REPAIR
from ...types.base import (
    CallPiece,
    CallStart,
    Fallback,
    Finished,
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
from ...types.classify import classify, no_answer
from ...types.info import ModelInfo
from ...types.json import Json, join_surrogates
from ...types.provider_table import Route
from ..dialect import EncodedRequest, known_effort
from ..event_stream import SurrogateJoiner, count_of, decoded, text_of
from ..unsupported_parts import ELSEWHERE, THINKING, picture_repairs
from .request import chat_messages, fitting, tool_json

_USUAL_CHARS_A_TOKEN = 4
_MOST_CHARS_A_TOKEN = 6
"""More than any usual text has, so that a request is called too long only when it surely is."""
_NO_THINKING = "This model takes no effort of thinking; it is left out from now on."


class OllamaDialect:
    """`POST /api/chat`."""

    path = "/api/chat"
    lists = "messages"
    repairs: tuple[Fallback, ...] = (
        TOOLS_REPAIR,
        Fallback(
            "effort",
            re.compile(rf"['\"`.]think\b|{THINKING}", re.IGNORECASE),
            _NO_THINKING,
            elsewhere=ELSEWHERE,
        ),
        *picture_repairs(400, 422, 500),
    )

    def __init__(self, route: Route, probe: CapabilityProbe) -> None:
        """`probe` knows what the server said of the model by now."""
        self._route = route
        self._probe = probe
        self._sent_chars = 0

    def headers(self) -> Mapping[str, str]:
        """Return the key, which only a hosted Ollama wants."""
        return {"authorization": f"Bearer {self._route.api_key}"} if self._route.api_key else {}

    def write(self, request: ModelRequest, learnt: LearnedLimits) -> EncodedRequest:
        """Return the body, without what `learnt` says the model refuses.

        Raises:
            ModelError: `context_overflow` when the request cannot fit the context.
        """
        info = self._probe.info
        window = info.context_window or OLLAMA_WINDOW
        options: Json = {"num_ctx": window}
        if request.max_output_tokens is not None:
            options["num_predict"] = request.max_output_tokens
        body: Json = {"model": self._route.model, "stream": True, "truncate": False, "shift": False}
        body["options"] = options
        if "effort" not in learnt.refused and (think := _think(request.effort, info, self._route)) is not None:
            body["think"] = think
        if request.tools:
            body["tools"] = [tool_json(tool) for tool in request.tools]
        pictures = takes_pictures(learnt) and info.images is not False
        quirks = msgspec.structs.replace(fitting(self._route.quirks, learnt), reasoning_field="reasoning_content")
        pairs = list(chat_messages(request, quirks, self._route, pictures=pictures))
        names: dict[str, str] = {}
        body["messages"] = [_own(message, names) for _, message in pairs]
        self._sent_chars = _size(body)
        _check_size(self._sent_chars, window, self._route)
        return EncodedRequest(body, tuple(source for source, _ in pairs))

    def sends(self, repair: Fallback, body: Json) -> bool:
        """Return whether a body holds the part that a repair is about."""
        if repair.name in ("images", "pictures"):
            return any("images" in message for message in body["messages"])
        return {"effort": "think"}.get(repair.name, repair.name) in body

    def reader(self) -> "OllamaReader":
        """For the answer of the request written last."""
        return OllamaReader(self._route.provider, self._read)

    def _read(self, usage: Usage) -> None:
        """Tell the user when the server has cut the request. The count of what it read may leave out what it
        had in its cache, so that a small one proves nothing; cut requests fill half of the context or more."""
        window, read = self._probe.info.context_window, usage.input
        about = self._sent_chars // _USUAL_CHARS_A_TOKEN
        if window is None or read is None or usage.cache_read is not None:
            return
        if about > 0.8 * window and 0.45 * window <= read < 0.6 * about:
            self._probe.tell(
                f"Ollama read {read:,} tokens of about {about:,}: it has probably cut the beginning of the "
                "conversation. Update Ollama, or give this model a larger `context_window`."
            )


class OllamaReader:
    """Understands one answer: a JSON object a line, the last one with `done`."""

    def __init__(self, provider: str, told: Callable[[Usage], None] | None = None) -> None:
        """`told` is called with what the answer used."""
        self._provider = provider
        self._told = told
        self._rest = b""
        self._thought = ""
        self._joiner = SurrogateJoiner()
        self._calls = 0
        self._why = ""
        self.usage: Usage | None = None
        self.done = False

    @property
    def finished(self) -> bool:
        """The server said why the answer ended; its usage came with it."""
        return self.done

    def feed(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events that these bytes complete.

        Raises:
            ModelError: the stream reports an error, or is malformed.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield from self._line(line)

    def whole(self, data: bytes) -> Iterator[ModelEvent]:
        """Yield the events of an answer that came as one object, or as lines called JSON.

        Raises:
            ModelError: it is an error, or no answer at all.
        """
        try:
            one = decoded(data)
        except ModelError:
            if data.lstrip()[:1] == b"<":
                raise no_answer(data.decode("utf-8", "replace")) from None
            yield from self.feed(data)
            return
        yield from self._object(one)

    def end(self) -> Iterator[ModelEvent]:
        """Yield the last events, when no more bytes come.

        Raises:
            ModelError: `truncated` when the server never said that the answer is over.
        """
        yield from self._line(self._rest)
        yield from self._reasoning_done()
        if not self.done:
            raise ModelError("truncated", "the answer stopped without its end", usage=self.usage)
        match self._why:
            case "length":
                yield Finished("length", "length")
            case "stop" | "":
                yield Finished("tool_calls" if self._calls else "stop", self._why or "done")
            case other:
                yield Finished("unknown", other)

    def _line(self, line: bytes) -> Iterator[ModelEvent]:
        if self.done or not (line := line.strip()):
            return
        try:
            chunk = decoded(line)
        except ModelError as error:
            error.usage = self.usage
            raise
        yield from self._object(chunk)

    def _object(self, chunk: Any) -> Iterator[ModelEvent]:
        if not isinstance(chunk, dict) or chunk.get("error") or not ({"message", "done"} & chunk.keys()):
            raise self._failed(chunk)
        message = chunk.get("message")
        if isinstance(message, dict):
            yield from self._message(message)
        if chunk.get("done") is True:
            self.done = True
            self._why = str(chunk.get("done_reason") or "")
            self.usage = read_usage(chunk)
            if self._told is not None:
                self._told(self.usage)
            yield UsageReport(self.usage)

    def _message(self, message: Json) -> Iterator[ModelEvent]:
        if thought := text_of(message.get("thinking")):
            self._thought += thought
            yield ReasoningPiece(join_surrogates(thought))
        if text := self._joiner.join(text_of(message.get("content"))):
            yield from self._reasoning_done()
            yield TextPiece(text)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            yield from self._reasoning_done()
            yield from self._call(call)

    def _call(self, call: Any) -> Iterator[ModelEvent]:
        """Yield a call, which always comes whole."""
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

    def _failed(self, chunk: Any) -> ModelError:
        error = chunk.get("error") if isinstance(chunk, dict) else None
        inner = _json_inside(error)
        failed = classify(None, inner if inner is not None else chunk)
        failed.usage = self.usage
        return failed


def read_usage(chunk: Json) -> Usage:
    """Token counts of the last object. `prompt_eval_count` includes what came from the cache."""
    total, cached = count_of(chunk.get("prompt_eval_count")), count_of(chunk.get("prompt_eval_cached_count"))
    fresh = total if total is None or cached is None else max(0, total - cached)
    return Usage(input=fresh, output=count_of(chunk.get("eval_count")), cache_read=cached)


def _own(message: Json, names: dict[str, str]) -> Json:
    """Return a message of Chat Completions as Ollama has it; `names` collects the tool of each call."""
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
    arguments = msgspec.json.decode(function["arguments"])
    return {"id": call["id"], "function": {"name": function["name"], "arguments": arguments}}


def _think(effort: str, info: ModelInfo, route: Route) -> bool | str | None:
    """Return what to put into `think`; None leaves it to the model."""
    if not effort or info.reasoning is False:
        return None
    levels = info.efforts or (("low", "medium", "high") if "gpt-oss" in route.model else ())
    if levels:
        return known_effort(effort, levels)
    return effort != "none"


def _size(body: Json) -> int:
    """Characters of text; pictures do not count."""
    tools = len(msgspec.json.encode(body["tools"])) if "tools" in body else 0
    return tools + sum(len(message["content"]) for message in body["messages"])


def _check_size(chars: int, window: int, route: Route) -> None:
    """Raises:
    ModelError: even the fewest tokens that the text can be are more than the context holds.
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
    """Return an error that is JSON again, as Ollama passes on what its runner said."""
    if not isinstance(error, str) or not error.lstrip().startswith("{"):
        return None
    try:
        return decoded(error.encode())
    except (ModelError, UnicodeError):
        return None
