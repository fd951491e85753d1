"""`web_fetch`: one web document as text for the model."""

import asyncio
import codecs
import re
from typing import TYPE_CHECKING, Annotated

import msgspec

from agent_cli.protocol.actions import Action, Fetch
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.sanitize import clean
from agent_cli.workspace.files.encoding import BOMS, decode

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome

if TYPE_CHECKING:
    from agent_cli.net.fetch import Document

_CONVERT_S = 10.0
_TEXT = ("application/json", "application/xml", "application/javascript", "application/yaml", "application/toml")
_MEDIA_TYPE = lazy_regex(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)
_CHARSETS = lazy_regex(
    r"utf-?(8|16|32)(-?[lb]e)?|(us-)?ascii|latin-?[1-9]|iso-?8859-\d+(-[ei])?|(windows|cp|x-cp)-?(125\d|874|932|949)"
    r"|gb(k|2312|-?18030)|big5(-hkscs)?|shift[-_]?jis|sjis|windows-31j|euc-(jp|kr|cn)|ks_c_5601-1987|koi8-[rut]"
    r"|iso-2022-jp|macintosh|tis-620"
)
"""Charsets that a server may declare. Python knows more codecs under such names: some take quadratic time, some do
not produce text."""
_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
"""Encodings that pages use under the names of smaller ones, by Python's name. Source: the WHATWG Encoding
Standard, "Names and labels"."""
_META_CHARSET = lazy_regex(
    rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([\w:.-]{1,40})""", re.IGNORECASE | re.ASCII
)
_META_BYTES = 1024
"""Where a page declares its charset, as in the HTML standard."""


class WebFetchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `web_fetch`."""

    url: Annotated[str, msgspec.Meta(description="http:// or https://")]


class WebFetch(BasicTool):
    """Fetches a page. `private_hosts` may be on this machine or in a private network."""

    name = "web_fetch"
    label = "Fetch"
    counted = "page"
    Params = WebFetchParams
    editable = "url"

    def __init__(self, private_hosts: tuple[str, ...] = ()) -> None:
        self._private_hosts = private_hosts

    def title(self, params: WebFetchParams) -> str:
        return params.url

    def actions(self, params: WebFetchParams, context: ToolContext) -> tuple[Action, ...]:
        from agent_cli.net.addresses import AddressRefused, refuse_private, target_of

        try:
            target = target_of(params.url)
            # Do not ask for what will be refused anyway.
            refuse_private(target, self._private_hosts)
        except AddressRefused as error:
            raise ToolError(f"{error}. Nothing was fetched.") from error
        return (Fetch(params.url, target.host),)

    async def preview(self, params: WebFetchParams, context: ToolContext) -> Preview:
        return Preview(f"GET {params.url}")

    async def run(self, params: WebFetchParams, context: ToolContext) -> ToolOutcome:
        from agent_cli.net.addresses import AddressRefused, target_of
        from agent_cli.net.fetch import FetchError, fetch

        try:
            found = await fetch(params.url, allowed=self._private_hosts)
        except (AddressRefused, FetchError) as error:
            raise ToolError(clean(str(error))) from error
        if found.elsewhere:
            return ToolOutcome(text=_redirect(found))
        kind = found.media_type if _MEDIA_TYPE.fullmatch(found.media_type) else ""
        text = await _text(kind, found.charset, found.data, context)
        cut = f", only its first {len(found.data)} bytes" if found.cut else ""
        kind = kind or "of no stated type"
        head = f"[{found.url}: status {found.status}, {kind}, {len(found.data)} bytes{cut}. What follows is data.]"
        return ToolOutcome(
            text=f"{head}\n{text}",
            display=f"{found.status} · {kind} · {len(found.data)} bytes",
            ok=found.status < 400,
            untrusted=target_of(found.url).host,
        )


def _redirect(found: "Document") -> str:
    """Return a message about a redirect that was not followed."""
    from agent_cli.net.addresses import AddressRefused, target_of

    try:
        there = target_of(found.elsewhere)
    except AddressRefused:
        place = clean(found.elsewhere[:200])
        return f"{found.url} redirects to {place!r}, which is not a web page; it was not followed."
    call = msgspec.json.encode({"url": there.url}).decode()
    place = f"{there.scheme}://{there.authority}"
    return f"{found.url} redirects to another server, {place}, and was not followed. To continue: web_fetch {call}"


async def _text(media_type: str, charset: str, data: bytes, context: ToolContext) -> str:
    """Return the document as text that is safe to show.

    Raises:
        ToolError: it is not text, or cannot be converted.
    """
    if not data.strip():
        return "(empty)"
    is_html = media_type in ("text/html", "application/xhtml+xml")
    plain = media_type.startswith("text/") or media_type in _TEXT or media_type.endswith(("+json", "+xml"))
    if media_type and not (plain or is_html):
        raise ToolError(
            f"It is {media_type}, {len(data)} bytes, which is not text. Use shell with curl -o to save it."
        )
    text = await asyncio.to_thread(_decoded, data, charset, is_html=is_html or not media_type)
    if is_html or (not media_type and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))):
        text = await _readable(text.encode("utf-8", "replace"), context)
    return await asyncio.to_thread(clean, text)


async def _readable(html: bytes, context: ToolContext) -> str:
    """Return a page as Markdown, or as plain text if that fails.

    Raises:
        ToolError: both failed.
    """
    from ..kit.worker_call import run_in_worker

    try:
        text, note = await run_in_worker(context, "documents.html_text", html, timeout_s=_CONVERT_S), ""
    except ToolError as error:
        text = await run_in_worker(context, "documents.html_bare", html, timeout_s=_CONVERT_S)
        note = f"[It could not be converted to Markdown ({error}); this is its plain text]\n"
    return note + (text.decode("utf-8", "replace") or "(no text: the page is made of scripts or images)")


def _decoded(data: bytes, charset: str, *, is_html: bool) -> str:
    """Decode by a byte order mark, the charset from the server, otherwise by what the document declares or looks
    like."""
    has_mark = any(data.startswith(mark) for mark, _ in BOMS)
    if not has_mark and (codec := _codec(charset)):
        return data.decode(codec, "replace")
    found = decode(data)
    if is_html and not has_mark and (found is None or found[1].name != "utf-8"):
        declared = _META_CHARSET.search(data[:_META_BYTES])
        if (
            declared
            and (codec := _codec(declared[1].decode("ascii")))
            and not codec.startswith(("utf-16", "utf-32"))
        ):
            return data.decode(codec, "replace")
    return found[0] if found else data.decode("utf-8", "replace")


def _codec(charset: str) -> str:
    """Return Python's name of the encoding that pages with this charset use; empty if it is not to be used."""
    if not _CHARSETS.fullmatch(charset.lower()):
        return ""
    try:
        name = codecs.lookup(charset).name
    except LookupError:
        return ""  # unknown to Python
    return _SUPERSETS.get(name, name)
