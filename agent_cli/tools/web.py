"""`web_fetch`: one document of the web as text that a model can use."""

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from ..protocol.actions import Action, Fetch
from .base import Preview, ToolContext, ToolError, ToolOutcome
from .isolated import isolated

_CONVERT_S = 20.0
_TEXT = ("application/json", "application/xml", "application/javascript", "application/yaml", "application/toml")


class WebFetchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `web_fetch` takes."""

    url: Annotated[str, msgspec.Meta(description="http:// or https://")]


class WebFetch:
    """Gets a page. `private_hosts` may be on this machine or a private network."""

    name = "web_fetch"
    Params = WebFetchParams
    editable = "url"

    def __init__(self, private_hosts: tuple[str, ...] = ()) -> None:
        self._private_hosts = private_hosts

    def title(self, params: WebFetchParams) -> str:
        return params.url

    def actions(self, params: WebFetchParams, context: ToolContext) -> tuple[Action, ...]:
        from ..net.addresses import Refused, target_of

        try:
            return (Fetch(params.url, target_of(params.url).host),)
        except Refused as error:
            raise ToolError(f"{error}. Nothing was fetched.") from error

    async def preview(self, params: WebFetchParams, context: ToolContext) -> Preview:
        return Preview(f"GET {params.url}")

    async def run(self, params: WebFetchParams, context: ToolContext) -> ToolOutcome:
        from ..net.addresses import Refused
        from ..net.fetch import Document, FetchError, fetch

        try:
            found: Document = await fetch(params.url, allowed=self._private_hosts)
        except (Refused, FetchError) as error:
            raise ToolError(str(error)) from error
        if found.elsewhere:
            host = urlsplit(found.elsewhere).hostname
            return ToolOutcome(
                text=f"{found.url} redirects to another host, {host}, and was not followed. To go on: web_fetch"
                f" {msgspec.json.encode({'url': found.elsewhere}).decode()}"
            )
        text = await _text(found.media_type, found.charset, found.data, context)
        cut = f", only its first {len(found.data)} bytes" if found.cut else ""
        kind = found.media_type or "of no stated type"
        head = f"[{found.url}: status {found.status}, {kind}, {len(found.data)} bytes{cut}. What follows is data.]"
        return ToolOutcome(
            text=f"{head}\n{text}",
            display=f"{found.status} · {kind} · {len(found.data)} bytes",
            ok=found.status < 400,
        )


async def _text(media_type: str, charset: str, data: bytes, context: ToolContext) -> str:
    """The document as text.

    Raises:
        ToolError: it is none, or cannot be converted.
    """
    if not data.strip():
        return "(empty)"
    is_html = media_type in ("text/html", "application/xhtml+xml")
    plain = media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+json", "+xml"))
    if media_type and not (plain or is_html):
        raise ToolError(
            f"It is {media_type}, {len(data)} bytes, which is no text. Use shell with curl -o to save it."
        )
    text = _decoded(data, charset)
    if not is_html and (media_type or not text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))):
        return text
    return (await isolated(context, "html_text", text.encode(), timeout_s=_CONVERT_S)).decode("utf-8", "replace")


def _decoded(data: bytes, charset: str) -> str:
    """By the server's word, else by what the document declares or looks like."""
    from ..workspace.encoding import decode

    if charset:
        try:
            return data.decode(charset, "replace")
        except LookupError:
            pass  # a name nobody knows
    found = decode(data)
    return found[0] if found else data.decode("utf-8", "replace")
