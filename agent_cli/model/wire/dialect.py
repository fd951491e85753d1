"""Interface of a wire format: write requests and read responses.

Everything else of a call (connection, time limits, fallbacks, missing ends) is the same for all formats and
implemented in `http_model`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.usage import EFFORTS

from ..types.base import Fallback, LearnedLimits, ModelError, ModelRequest
from ..types.json import Json, tokens_in
from ..types.provider_table import Route

if TYPE_CHECKING:
    from .event_stream import EventStream

_REJECTED = lazy_regex(
    r"unsupported|\b(?:not?|only|never)\b.{0,60}?support|n't support|unrecogni[sz]ed|unknown|unexpected|invalid"
    r"|extra (?:inputs?|fields?)|extra_forbidden|not (?:be )?(?:permitted|allowed|enabled|available)|only works"
    r"|mandatory|cannot unmarshal|(?:found|find) field",
    re.IGNORECASE,
)
_LISTED = lazy_regex(r"['\"“`](none|minimal|low|medium|high|xhigh|max)['\"”`]")
_REFUSED_EFFORT = lazy_regex(r"value:? ['\"“`](\w+)['\"”`] is not supported", re.IGNORECASE)
_PLAINLY_LISTED = lazy_regex(r"(?:levels|values|efforts|options)(?: are)?:? ([a-z, ]+)", re.IGNORECASE)
_OUTPUT_LIMIT = lazy_regex(
    r"> ?(\d[\d,]*) ?, which is the maximum|<= ?(\d[\d,]*)|at most (\d[\d,]*)", re.IGNORECASE
)
OUTPUT_LIMIT = "output_limit"
"""Name of the fallback that adopts the maximum answer length named in a refusal instead of omitting something."""
_NO_REFUSAL_OF_A_PART = frozenset({"auth", "quota", "rate_limit", "context_overflow", "content_filter"})
"""Kinds of errors that are not about a part of the request."""


class EncodedRequest(msgspec.Struct, frozen=True):
    """A request in its wire format."""

    body: Json
    sources: tuple[str, ...]
    """Message id of each entry of the body's conversation; empty if there is none."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Message ids of the blocks of each entry, for formats in which an entry may hold several messages."""


class Dialect(ABC):
    """A wire format, for one model."""

    path: str
    """Path below the base URL."""
    lists: str
    """Key of the conversation in the body, as refusals name it: `messages` or `input`."""
    fallbacks: tuple[Fallback, ...]

    def __init__(self, route: Route) -> None:
        self._route = route

    def headers(self) -> Mapping[str, str]:
        """Return the headers for key and version, with lower-case names."""
        return {"authorization": f"Bearer {self._route.api_key}"} if self._route.api_key else {}

    @abstractmethod
    def write(self, request: ModelRequest, learned: LearnedLimits) -> EncodedRequest:
        """Return the body, without parts that according to `learned` the model refuses.

        Raises:
            ModelError: `context_overflow` if the request certainly cannot fit the window.
        """

    @abstractmethod
    def sends(self, fallback: Fallback, body: Json) -> bool:
        """Return True if a body holds the part that a fallback is about."""

    @abstractmethod
    def reader(self) -> "EventStream":
        """Return a reader for the response to the request written last."""


class LearnedLimit(msgspec.Struct, frozen=True):
    """The lesson of a refusal."""

    learned: LearnedLimits
    """All limits known now."""
    text: str
    """Message for the user."""
    lasting: bool = True
    """True if worth remembering beyond this client."""


def learn_from_refusal(
    dialect: Dialect, written: EncodedRequest, error: ModelError, learned: LearnedLimits
) -> LearnedLimit | None:
    """Return what a refusal teaches; None if it is not about a part that can be omitted.

    If a refusal lists the supported efforts, they are stored and the effort is mapped to the nearest. Images are
    omitted if the model supports none, not if a refusal names one of them.
    """
    body = written.body
    if error.kind in _NO_REFUSAL_OF_A_PART:
        return None
    for fallback in dialect.fallbacks:
        asked = error.sorted_as in fallback.statuses and dialect.sends(fallback, body)
        if not asked or fallback.name in learned.refused or not _is_about(fallback, error.message):
            continue
        if fallback.name == OUTPUT_LIMIT:
            limit = _output_limit(error.message)
            if limit and limit < (learned.max_output_tokens or limit + 1):
                return LearnedLimit(msgspec.structs.replace(learned, max_output_tokens=limit), fallback.text)
            continue
        if fallback.name == "pictures" and refused_message(written, error, dialect.lists):
            continue
        if fallback.name == "effort":
            listed = _known_efforts(error.message, body)
            if listed and listed != learned.efforts:
                text = f"This model knows the efforts {', '.join(listed)} only; the nearest is used."
                return LearnedLimit(msgspec.structs.replace(learned, efforts=listed), text)
        if not fallback.sure and not _REJECTED.search(error.message):
            continue
        refused = (*learned.refused, fallback.name)
        return LearnedLimit(msgspec.structs.replace(learned, refused=refused), fallback.text, fallback.lasting)
    return None


def _is_about(fallback: Fallback, message: str) -> bool:
    other = fallback.elsewhere is not None and fallback.elsewhere.search(message)
    return not other and fallback.words.search(message) is not None


def _known_efforts(message: str, body: Json) -> tuple[str, ...]:
    """Return the efforts a refusal lists as supported, without the refused one, which it also names."""
    plain = _PLAINLY_LISTED.search(message)
    listed = set(_LISTED.findall(message)) | set(re.findall(r"\w+", plain[1]) if plain else ())
    refused = {*_strings(body), *_REFUSED_EFFORT.findall(message)}
    return tuple(name for name in EFFORTS if name in listed - refused)


def _strings(body: Json) -> Iterator[str]:
    for name, value in body.items():
        if name in ("reasoning_effort", "effort", "think") and isinstance(value, str):
            yield value
        elif name in ("reasoning", "output_config", "thinking") and isinstance(value, dict):
            yield from _strings(value)


def _output_limit(message: str) -> int | None:
    found = _OUTPUT_LIMIT.search(message)
    return next(filter(None, map(tokens_in, found.groups())), None) if found else None


_PLACE = lazy_regex(r"\b(messages|input|contents)(?:\.|\[)(\d+)(?:\]?\.content(?:\.|\[)(\d+))?")


def refused_message(written: EncodedRequest, error: ModelError, lists: str) -> str:
    """Return the id of the message that a refusal names, such as `messages.3.content.0: …`; empty if none."""
    if error.sorted_as not in (400, 413, 422) or error.kind not in ("bad_request", "too_large", "content_filter"):
        return ""
    for name, place, part in _PLACE.findall(error.message):
        if name == lists and int(place) < len(written.sources):
            parts = written.parts[int(place)] if written.parts else ()
            return parts[int(part)] if part and int(part) < len(parts) else written.sources[int(place)]
    return ""


def known_effort(effort: str, known: tuple[str, ...]) -> str:
    """Return the nearest supported effort at or below the wanted one, else the lowest; empty stays empty."""
    if effort not in EFFORTS or not known:
        return ""
    below = [name for name in EFFORTS[: EFFORTS.index(effort) + 1] if name in known]
    return below[-1] if below else known[0]
