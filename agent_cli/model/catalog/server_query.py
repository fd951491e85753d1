"""Query a server about its model: once, in parallel with the first answer, within time limits, and never delaying
it. Separate from the clients because each server has its own endpoints.

If the result changes how the request is written, as with Ollama's own endpoint, the server is asked first. Hosted
providers with known figures are not asked at all.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import AssistantMessage

from ..types.base import Adjusted, LearnedLimits, ModelError, ModelRequest, takes_pictures
from ..types.info import Facts, ModelInfo
from ..types.provider_table import PROVIDERS, Route
from .server_facts import from_list, from_lm_studio, from_ollama, from_props, running_window

if TYPE_CHECKING:
    from ..transport.http import Connection

_LOCAL_S = 0.5
_REMOTE_S = 2.0
_MOST_TRIES = 2
_TELLING = frozenset({"openrouter", "groq", "mistral", "moonshot", "together_ai", "fireworks_ai", "deepinfra"})
"""Hosted providers whose list of models gives more than names."""

Asked = Awaitable[Facts | None]


class CapabilityProbe:
    """The known facts about one model, and the questions still to ask its server."""

    def __init__(self, info: ModelInfo, route: Route | None = None) -> None:
        """Create a probe. `info` is known without asking; without a route nothing is asked."""
        self.info = info
        """The facts known so far."""
        self._known: tuple[ModelInfo, LearnedLimits, ModelInfo] | None = None
        self._route = route
        self._questions = questions(route, info) if route is not None else []
        self._tries = 0
        self._live = False
        self._notice: Adjusted | None = None
        self._told_of_pictures = False

    def with_learned(self, learned: LearnedLimits) -> ModelInfo:
        """Return the facts merged with learned limits. A learned window no longer counts once a local server has
        reported the actual one."""
        known = self._known
        if known is None or known[0] is not self.info or known[1] != learned:
            window = None if self._live else learned.context_window
            facts = Facts("learnt", window, learned.max_output_tokens, efforts=learned.efforts)
            known = self._known = (self.info, learned, self.info.plus(facts))
        return known[2]

    def take_notice(self) -> Adjusted | None:
        """Return the pending notice for the user, once."""
        notice, self._notice = self._notice, None
        return notice

    def tell(self, text: str) -> None:
        """Set the notice for the user."""
        self._notice = Adjusted(text)

    def pictures_left_out(self, request: ModelRequest, learned: LearnedLimits) -> Adjusted | None:
        """Return the notice, once, that images are not sent because of known facts about the model. To be called
        before each request; if a refusal teaches the same, its own notice is shown."""
        if not any(message.images for message in request.messages if not isinstance(message, AssistantMessage)):
            return None
        if self._told_of_pictures:
            return None
        self._told_of_pictures = True
        name = self.info.name
        if not takes_pictures(learned):
            return Adjusted(
                f"Images are left out: {name} refused them. `agent models --forget {name}` has them tried again."
            )
        return Adjusted(f"Images are left out: {name} does not accept them.") if self._takes_no_images() else None

    def effective_limits(self, learned: LearnedLimits) -> LearnedLimits:
        """Return the limits for writing a request: those learned, and no images if the model is known to take
        none."""
        if not self._takes_no_images():
            return learned
        return msgspec.structs.replace(learned, refused=(*learned.refused, "images"))

    def _takes_no_images(self) -> bool:
        """Return True if a reliable source says that the model takes no images; for Ollama, any source."""
        of_ollama = self._route is not None and self._route.wire == "ollama_chat"
        sure = of_ollama or self.info.source("images") in ("configuration", "server")
        return sure and self.info.images is False

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[Callable[[], None]]:
        """Send the open questions: before the block if they change the request, otherwise when the block calls the
        yielded function after sending the request. A local server is awaited at the end of the block; a slow
        remote query is cancelled and tried once more next time."""
        route, task = self._route, None

        def begun() -> None:
            nonlocal task
            if task is None and route is not None and self._questions:
                task = asyncio.create_task(self._ask(route, _is_local(route)))

        if route is not None and route.wire == "ollama_chat" and _is_local(route):
            begun()
            if task is not None:
                await asyncio.wait({task})
        try:
            yield begun
            if task is not None and route is not None and _is_local(route):
                await asyncio.wait({task})
        finally:
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def ask(self, limit_s: float) -> None:
        """Ask now, waiting at most `limit_s` seconds."""
        if self._route is not None and self._questions:
            task = asyncio.create_task(self._ask(self._route, _is_local(self._route)))
            await asyncio.wait({task}, timeout=limit_s)
            task.cancel()
            await asyncio.wait({task})

    async def _ask(self, route: Route, local: bool) -> None:
        self._tries += 1
        question = self._questions[0]
        asker = _Asker(route, local)
        try:
            async with asyncio.timeout(asker.limit_s):
                facts = await question(self, asker)
        except TimeoutError:
            facts = None
        if facts is not None:
            self.info = self.info.plus(facts)
            self._live = self._live or (local and facts.context_window is not None)
        if facts is not None or self._tries >= _MOST_TRIES:
            self._questions = self._questions[1:]
            self._tries = 0


Question = Callable[[CapabilityProbe, "_Asker"], Asked]


class _Asker:
    """Sends the queries of one probe to the server's root or its base URL."""

    def __init__(self, route: Route, local: bool) -> None:
        self.route = route
        self.local = local
        self.limit_s = _LOCAL_S if local else _REMOTE_S
        self._headers = {"authorization": f"Bearer {route.api_key}"} if route.api_key else {}

    async def at_root(self, path: str, body: Any = None) -> Any:
        """Return the JSON of an endpoint at the server's root; None if there is none."""
        return await self._get(self.route.base_url.removesuffix("/v1"), path, body)

    async def at_base(self, path: str) -> Any:
        """Return the JSON of an endpoint below the base URL; None if there is none."""
        return await self._get(self.route.base_url, path, None)

    async def _get(self, base_url: str, path: str, body: Any) -> Any:
        from ..transport.connect import open_connection

        try:
            connection = open_connection(msgspec.structs.replace(self.route, base_url=base_url), self._headers)
            async with contextlib.aclosing(connection):
                status, data = await _fetched(connection, path, body, self.limit_s)
            return decode_json(data) if status == 200 else None
        except (ModelError, msgspec.DecodeError):
            return None


async def _fetched(connection: "Connection", path: str, body: Any, limit_s: float) -> tuple[int, bytes]:
    if body is None:
        return await connection.get(path, limit_s)
    async with connection.post(path, msgspec.json.encode(body)) as response:
        return response.status, await response.read()


def questions(route: Route, info: ModelInfo) -> list[Question]:
    """Return the questions to ask, one per call. Some are asked again after the first answer, when the model has
    been loaded."""
    if route.wire == "ollama_chat":
        return [_ollama, _ollama_loaded]
    if route.wire not in ("chat_completions", "openai_responses"):
        return []
    match route.provider:
        case "ollama":
            return [_ollama_running, _ollama_running]
        case "llamacpp":
            return [_llamacpp]
        case "lm_studio":
            return [_lm_studio, _lm_studio]
    hosted = PROVIDERS.get(route.provider)
    if hosted is None or hosted.local:
        return [_any_server]
    if route.base_url != hosted.base_url:
        return [_listed]
    is_complete = None not in (info.context_window, info.prices.input, info.prices.output)
    return [_listed] if route.provider in _TELLING and not is_complete else []


async def _ollama(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    model = asker.route.model
    show, running = await asyncio.gather(asker.at_root("/api/show", {"model": model}), asker.at_root("/api/ps"))
    return from_ollama(show, running, model)


async def _ollama_loaded(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    """Check that Ollama gave the model the requested context window; notify the user if not."""
    window = running_window(await asker.at_root("/api/ps"), asker.route.model)
    wanted = probe.info.context_window
    if window is None or wanted is None or window >= wanted:
        return Facts("server")
    probe.tell(
        f"Ollama runs {asker.route.model} with a context of {window:,} tokens instead of {wanted:,}; "
        "longer conversations are compacted. To change that, set `context_window` of this model under "
        "`providers.ollama.models`, or free memory."
    )
    return Facts("server", context_window=window)


async def _ollama_running(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    """Query Ollama when its OpenAI endpoint is used, where no context window can be requested."""
    window = running_window(await asker.at_root("/api/ps"), asker.route.model)
    return Facts("server", context_window=window)


async def _llamacpp(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    return from_props(await asker.at_root("/props"))


async def _lm_studio(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    return from_lm_studio(await asker.at_root("/api/v0/models"), asker.route.model)


async def _listed(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    return from_list(await asker.at_base("/models"), asker.route.model)


async def _any_server(probe: CapabilityProbe, asker: _Asker) -> Facts | None:
    """Query a server of unknown make: its list of models and, if local, the extra endpoints of llama.cpp and LM
    Studio."""
    if not asker.local:
        return await _listed(probe, asker)
    listed, props, studio = await asyncio.gather(
        asker.at_base("/models"), asker.at_root("/props"), asker.at_root("/api/v0/models")
    )
    model = asker.route.model
    found = from_list(listed, model)
    if found is not None and found.context_window is not None:
        return found
    return from_props(props) or from_lm_studio(studio, model) or found


def _is_local(route: Route) -> bool:
    from ..transport.http import is_local_url

    return is_local_url(route.base_url)
