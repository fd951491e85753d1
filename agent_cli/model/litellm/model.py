"""Access to LiteLLM, for every provider without a client of our own. Nothing else imports it.

LiteLLM is slow to load, uses the network unasked, reads `.env` files, retries by itself and ends broken streams as
if they were complete. So it is imported on first use with all of that switched off, runs in a thread with its own
event loop, and its report of an answer's end counts only if it received one.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import os
import re
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

from agent_cli.net.causes import causes
from agent_cli.protocol.messages import AssistantMessage, Reasoning

from ..transport.error_redaction import ErrorRedactor
from ..types.base import (
    Adjusted,
    ErrorKind,
    LearnedLimits,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReasoningDone,
    ReasoningPiece,
    Unconnected,
)
from ..types.classify import classify, request_id
from ..types.json import Json
from ..types.provider_table import Route
from ..wire.chat.request import chat_body, mark_cached
from ..wire.chat.stream import ChatStream

_ENV_KEPT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise a price table is fetched at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # otherwise a header list is fetched at the first call
}
_ENV_AT_IMPORT = {
    "LITELLM_MODE": "PRODUCTION",  # otherwise a `.env` file is loaded from the package's location
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000000",  # otherwise 100 equal chunks end an answer
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""Not left in place, because the user's commands inherit the environment."""
_NO_PROVIDER = "LLM Provider NOT provided"
"""LiteLLM's message for an unknown prefix; the exception is that of any bad request."""
_BY_CLASS: dict[str, ErrorKind] = {
    "ContextWindowExceededError": "context_overflow",
    "ContentPolicyViolationError": "content_filter",
    "Timeout": "timeout",
    "APITimeoutError": "timeout",
    "UnsupportedParamsError": "unsupported",
}
_MALFORMED = re.compile(r"Unterminated string|Expecting (value|property|',')|JSONDecodeError")
_NO_KEY = "none"
"""Sent to a custom server that needs no key; otherwise LiteLLM would send it the user's OpenAI key."""
_TRACEBACK = "Traceback (most recent call last)"
_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+Error: )+(?:\w+Exception(?: -|:) ?)?")

_Put = Callable[[ModelEvent | ModelError | None], None]


class LiteLLMModel(Unconnected):
    """A `Model` accessed through LiteLLM."""

    def __init__(self, route: Route, info: ModelInfo, provider: str = "") -> None:
        """Create a client. `provider` is LiteLLM's name for it, if that differs from the first part of the model's
        name."""
        self._route = route
        self._provider = provider or route.name.partition("/")[0]
        own = self._provider == route.name.partition("/")[0]
        self._key = route.api_key or (None if own else _NO_KEY)
        self.info = info
        """Known facts about the model."""
        self._told = False
        self._masks = ErrorRedactor(route)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Make one call.

        Raises:
            ModelError: the call failed, or LiteLLM is not installed (`unsupported`).
        """
        home = asyncio.get_running_loop()
        received: asyncio.Queue[ModelEvent | ModelError | None] = asyncio.Queue()

        def put(item: ModelEvent | ModelError | None) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody receives
                home.call_soon_threadsafe(received.put_nowait, item)

        away = await asyncio.to_thread(_loop)
        call = asyncio.run_coroutine_threadsafe(self._produce(request, put), away)
        try:
            while (item := await received.get()) is not None:
                if isinstance(item, ModelError):
                    with self._masks.applied():
                        raise item
                yield item
        finally:
            call.cancel()

    async def _produce(self, request: ModelRequest, put: _Put) -> None:
        try:
            await self._call(request, put)
            put(None)
        except ModelError as error:
            put(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            put(_model_error(error))

    async def _call(self, request: ModelRequest, put: _Put) -> None:
        from ..transport.http import first_byte_limit_s

        limits = self._route.timeouts
        stream = LiteLLMStream(self._route.provider)
        limit_s = first_byte_limit_s(self._route.base_url, limits)
        arguments = self._arguments(request, limit_s)
        if "reasoning_effort" in arguments and not _takes_effort(arguments["model"]):
            del arguments["reasoning_effort"]
            if not self._told:
                put(Adjusted("LiteLLM knows no reasoning effort for this model; it is left out."))
                self._told = True
        async with _limit(limit_s):
            chunks = await load_litellm().acompletion(**arguments)
            chunk = await anext(chunks, None)
        try:
            while chunk is not None:
                for event in stream.chunk(_believed(chunk.model_dump(), chunks)):
                    put(event)
                async with _limit(limits.idle_s):
                    chunk = await anext(chunks, None)
            # What was received: LiteLLM invents a reason for streams that stop without.
            for event in stream.end(str(getattr(chunks, "received_finish_reason", None) or "")):
                put(event)
        finally:
            with contextlib.suppress(Exception):
                await chunks.aclose()

    def _arguments(self, request: ModelRequest, timeout_s: float) -> Json:
        route = self._route
        body = with_signatures(chat_body(route, request, LearnedLimits()).body, request, route)
        if "claude" in route.model:
            mark_cached(body["messages"])
            body.setdefault("max_tokens", self.info.max_output_tokens)
        responses = "responses/" if route.wire == "openai_responses" else ""
        return body | {
            "model": f"{self._provider}/{responses}{route.model}",
            "api_key": self._key,
            "api_base": route.base_url or None,
            "extra_headers": route.headers or None,
            "timeout": timeout_s,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
            "_skip_mcp_handler": True,
        }


@functools.cache
def load_litellm() -> Any:
    """Return the package, imported with all unwanted behavior switched off. Takes seconds: call it in a thread.

    Raises:
        ModelError: `unsupported` if it is not installed.
    """
    os.environ.update({name: value for name, value in _ENV_KEPT.items() if name not in os.environ})
    before = {name: os.environ.get(name) for name in _ENV_AT_IMPORT}
    os.environ.update(_ENV_AT_IMPORT)
    collecting = gc.isenabled()
    gc.disable()  # a fifth of the import is garbage collection that finds nothing
    try:
        import litellm
    except ImportError as error:
        raise ModelError(
            "unsupported", f"this provider needs LiteLLM, which cannot be loaded ({error}): pip install litellm"
        ) from error
    finally:
        if collecting:
            gc.enable()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    _silence(litellm)
    return litellm


def _silence(litellm: Any) -> None:
    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    litellm.disable_aiohttp_transport = True
    warnings.filterwarnings("ignore", module=r"(pydantic|litellm)\b")
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop for LiteLLM, in its own thread that ends with the program."""

    load_litellm()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="litellm", daemon=True).start()
    return loop


@contextlib.asynccontextmanager
async def _limit(limit_s: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError:
        raise ModelError("stalled", f"nothing arrived for {limit_s:.0f} s") from None


def _takes_effort(model: str) -> bool:
    """Return True if LiteLLM passes an effort on to a model; otherwise it would drop it silently."""
    try:
        return "reasoning_effort" in (load_litellm().get_supported_openai_params(model=model) or ())
    except Exception:  # unknown: let the provider decide
        return True


def _believed(chunk: Json, chunks: Any) -> Json:
    """Return a chunk without the usage LiteLLM estimates from the text if the provider reported none."""
    received = getattr(chunks, "chunks", None)
    if chunk.get("usage") and received and not any(getattr(each, "usage", None) for each in received):
        chunk["usage"] = None
    return chunk


def _model_error(error: BaseException) -> ModelError:
    """Convert LiteLLM's exception: by its class if that is specific, else as the provider's own response."""
    error = getattr(error, "original_exception", None) or error
    said = str(getattr(error, "message", None) or error).partition(_TRACEBACK)[0]
    message = _WRAPPING.sub("", said.strip()).strip() or type(error).__name__
    headers = _headers(error)
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) else None
    answered = classify(status or 500, _answer(error) | {"message": message}, headers)
    return ModelError(
        _kind(error, message, answered.kind),
        message,
        status=status,
        retry_after_s=answered.retry_after_s,
        request_id=request_id(headers),
        limit_tokens=answered.limit_tokens,
    )


def _kind(error: BaseException, message: str, answered: ErrorKind) -> ErrorKind:
    if _NO_PROVIDER in message:
        return "not_found"
    names = {cls.__name__ for cause in causes(error) for cls in type(cause).__mro__}
    for name, kind in _BY_CLASS.items():
        if name in names:
            return kind
    broken = "APIConnectionError" in names
    if _MALFORMED.search(message) and (broken or answered == "server"):
        return "malformed"
    return "connection" if broken else answered


def _answer(error: BaseException) -> Json:
    """Return code and type of the provider's error body."""
    fields: Json = {name: getattr(error, name, None) for name in ("code", "type")}
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    return fields | inner if isinstance(inner, dict) else fields


def _headers(error: BaseException) -> Mapping[str, str]:
    found = getattr(error, "litellm_response_headers", None) or {}
    return {str(name).lower(): str(value) for name, value in dict(found).items()}


class LiteLLMStream:
    """Parser for one answer. Chunks have the Chat Completions shape, with `thinking_blocks` added."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._chat = ChatStream(provider)
        self._thought = ""

    def chunk(self, chunk: Json) -> Iterator[ModelEvent]:
        """Yield the events of one chunk, ignoring its finish reason, which may be invented.

        Raises:
            ModelError: it reports an error.
        """
        for choice in chunk.get("choices") or ():
            choice["finish_reason"] = None
            delta = choice.get("delta") or {}
            blocks = delta.pop("thinking_blocks", None)
            if blocks:
                delta["reasoning_content"] = None
                for block in blocks:
                    yield from self._thinking(block)
        yield from self._chat.chunk(chunk)

    def end(self, raw_finish: str) -> Iterator[ModelEvent]:
        """Yield the last events.

        Args:
            raw_finish: the provider's finish reason; empty if there was none.

        Raises:
            ModelError: `truncated` if there was none.
        """
        if self._thought:
            yield self._done("")
        yield from self._chat.chunk({"choices": [{"delta": {}, "finish_reason": raw_finish}]})
        yield from self._chat.end()

    def _thinking(self, block: dict[str, Any]) -> Iterator[ModelEvent]:
        if block.get("type") == "redacted_thinking":
            yield ReasoningDone(
                Reasoning(signature=str(block.get("data", "")), provider=self._provider, redacted=True)
            )
            return
        text = block.get("thinking") or ""
        if block.get("signature") and text == self._thought:
            text = ""  # newer releases repeat the whole thought with its signature
        if text:
            self._thought += text
            yield ReasoningPiece(text)
        if block.get("signature"):
            yield self._done(block["signature"])

    def _done(self, signature: str) -> ReasoningDone:
        block = Reasoning(self._thought, signature, self._provider)
        self._thought = ""
        return ReasoningDone(block)


def with_signatures(body: Json, request: ModelRequest, route: Route) -> Json:
    """Return the body with signed reasoning restored in answers of the same provider."""
    answers = [message for message in request.messages if isinstance(message, AssistantMessage)]
    sent = [message for message in body["messages"] if message["role"] == "assistant"]
    for message, answer in zip(sent, answers, strict=True):
        blocks = [
            _thinking_block(block)
            for block in answer.reasoning
            if block.signature and block.provider == route.provider
        ]
        if blocks:
            message["thinking_blocks"] = blocks
    return body


def _thinking_block(block: Reasoning) -> Json:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.signature}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}
