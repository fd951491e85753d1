"""Attachments named in a prompt: files, folders, web pages and MCP resources mentioned with `@`, and images whose
paths were pasted.

They are read when the prompt is sent, by the tools the model would use, and counted before anything is sent.
Naming a file is the user's consent to read it, wherever it is. What a rule denies, asks about or protects as a
secret is not read, and the user is told which rule. Names that match nothing, as in `@property`, are left alone.
"""

import os
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from agent_cli.policy.rules.rule import BUILT_IN_PLACE
from agent_cli.protocol.actions import Action, Allow, Ask, CallExternal, Deny, Fetch, ReadPath, Verdict
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import Attachment, AttachmentKind, AttachmentSummary, Image, new_id
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.kit.base import Tool, ToolContext, ToolError, ToolOutcome
from agent_cli.tools.kit.output import bounded, keep_whole, result_tokens
from agent_cli.tools.search.list_dir import ListDir, ListParams
from agent_cli.workspace.files.reader import FileError, chunks, open_regular
from agent_cli.workspace.paths import PathError

from .token_meter import IMAGE_TOKENS

_SHARES = 2
"""All attachments together may have this many times the tokens of one result."""
_LEAST_TOKENS = 300
"""Below this remaining space, nothing more is attached."""
_MOST = 40
"""Maximum number of mentions processed per prompt."""
_FOLDER_DEPTH = 3

_FENCED = lazy_regex(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE = lazy_regex(r"(?<!`)(`+)(?!`)[^`\n]*?(?<!`)\1(?!`)")
_NAMED = lazy_regex(r"(?<![\w@/.`\\])@(?:\"([^\"\n]+)\"((?:(?::|#L?)\d+(?:-L?\d+)?)?)|((?:\\ |[^\s\"'`<>|])+))")
_LINES = lazy_regex(r"(.+?)(?::|#L?)(\d+)(?:-L?(\d+))?")
"""A line range, as in `a.py:10-20`; GitHub and editors write `a.py#L10-L20`."""
_WORD = lazy_regex(r"(?:^|(?<=\s))(?:'([^'\n]+)'|\"([^\"\n]+)\"|((?:\\.|[^\s'\"\\])+))(?=\s|$)")
_PICTURE = lazy_regex(r"\.(?:png|jpe?g|gif|webp|bmp|tiff?)\b", re.IGNORECASE)
_FILE = lazy_regex(
    r"^(?!@).*\w\.(?:pyi?|ipynb|[jt]sx?|mjs|cjs|vue|svelte|go|rs|java|kt|swift|lua|rb|php|cs|[ch]|cc|[ch]pp|sh|sql|html?|s?css"
    r"|mdx?|rst|txt|jsonc?|ya?ml|toml|ini|cfg|xml|csv)$"
)
"""A name with a file ending. If there is no such file, it is a typo rather than something like `@property`."""
_AFTER = ".,;:!?)]}*_'"
"""Characters that may follow a name in a sentence without being part of it."""
_PIPED = "\n\n<stdin>\n"
"""Separator before piped input. The user did not write that part, so nothing in it is consent."""
_MOST_AFTER = 6
_LONGEST = 4096


class Attachments(msgspec.Struct, frozen=True):
    """All attachments of a prompt."""

    attachments: tuple[Attachment, ...] = ()
    images: tuple[Image, ...] = ()
    seen: dict[str, str] = {}
    """Absolute path → content hash of each file attached in full."""
    untrusted: str = ""
    """Source of the first untrusted text; empty if there is none."""
    counted: tuple[AttachmentSummary, ...] = ()

    def joined(self, others: "Attachments") -> "Attachments":
        """Return these attachments followed by others."""
        return Attachments(
            self.attachments + others.attachments,
            self.images + others.images,
            self.seen | others.seen,
            self.untrusted or others.untrusted,
            self.counted + others.counted,
        )


class _Mention(msgspec.Struct, frozen=True):
    """Something named in a prompt."""

    name: str
    """As written, without `@` and quotes."""
    first: int = 0
    """First requested line; 0 for the whole file."""
    last: int = 0
    is_quoted: bool = False
    is_picture: bool = False
    """A pasted path: used only if it is an image."""


class _Item(msgspec.Struct, frozen=True):
    """A resolved mention."""

    counted: AttachmentSummary
    attachment: Attachment | None = None
    images: tuple[Image, ...] = ()
    seen: dict[str, str] = {}


Authorize = Callable[[Action], Verdict]
Guard = Callable[[Action], Awaitable[str]]
"""Given an action that would read something, returns why a user hook refuses it; empty if none does."""


async def unguarded(action: Action) -> str:
    """Allow everything."""
    return ""


async def guarded_images(paths: tuple[str, ...], images: tuple[Image, ...], guard: Guard) -> Attachments:
    """Return the images that no hook refuses, with a text for the model about the others."""
    items = []
    for path, image in zip(paths, images, strict=True):
        why = await guard(ReadPath(path, path))
        refused = _left_out(path, "image", f"a hook refused it: {why}")
        items.append(refused if why else _Item(AttachmentSummary(path, "image", IMAGE_TOKENS), images=(image,)))
    refusals = tuple(item.counted for item in items if item.attachment is not None)
    return msgspec.structs.replace(_together(items), counted=refusals)


async def attach(
    text: str,
    context: ToolContext,
    authorize: Authorize,
    private_hosts: tuple[str, ...] = (),
    guard: Guard = unguarded,
) -> Attachments:
    """Read what a prompt names. `private_hosts` may be fetched although they are not public. Unreadable things
    raise nothing: each is listed with a note, which the model sees too."""
    left = context.max_tokens() * _SHARES
    items: list[_Item] = []
    done: set[tuple[str, int, int]] = set()
    for mention in _mentions(text.encode("utf-8", "replace").decode("utf-8")):  # a path contains no lone surrogate
        found = _elsewhere(mention, context) or _place(mention, context)
        if found is not None and found.key not in done:
            done.add(found.key)
            item = await _refused(found, guard)
            item = item or await _followed(found, _with_room(context, left), authorize, private_hosts)
            items.append(item)
            left -= item.counted.tokens
    return _together(items)


def _with_room(context: ToolContext, tokens: int) -> ToolContext:
    """Return the context for one attachment, limited to the remaining tokens."""
    room = min(tokens, context.max_tokens())
    return context.for_call(new_id("mention"), max_tokens=lambda: room)


def _together(items: list[_Item]) -> Attachments:
    attachments = tuple(item.attachment for item in items if item.attachment is not None)
    return Attachments(
        attachments,
        tuple(image for item in items for image in item.images),
        {path: hash for item in items for path, hash in item.seen.items()},
        next((each.untrusted for each in attachments if each.untrusted), ""),
        tuple(item.counted for item in items),
    )


def _mentions(text: str) -> Iterator[_Mention]:
    """Yield the mentions in a prompt, in order, except in code and piped input."""
    text = text.partition(_PIPED)[0]
    if "@" not in text and not _PICTURE.search(text):
        return
    prose = _CODE.sub(_blank, _FENCED.sub(_blank, text))
    found = [(each.start(), _mention(each)) for each in _NAMED.finditer(prose)]
    taken = {at for each in _NAMED.finditer(prose) for at in range(*each.span())}
    for each in _WORD.finditer(prose):
        path = _pasted(each)
        if path and each.start() not in taken:
            found.append((each.start(), _Mention(path, is_picture=True)))
    yield from [mention for _, mention in sorted(found, key=lambda pair: pair[0])][:_MOST]


def _blank(found: "re.Match[str]") -> str:
    return re.sub(r"\S", " ", found.group())


def _mention(found: "re.Match[str]") -> _Mention:
    quoted, lines, bare = found.groups()
    if quoted is None:
        return _Mention(bare.replace("\\ ", " "))
    place = _LINES.fullmatch(f"{quoted}{lines}") if lines else None
    first, last = (int(place.group(2)), int(place.group(3) or place.group(2))) if place else (0, 0)
    return _Mention(quoted, first, last, is_quoted=True)


def _pasted(found: "re.Match[str]") -> str:
    """Return an image path as terminals paste it: quoted, with escaped spaces, or as a file URL."""
    quoted, bare = found.group(1) or found.group(2), found.group(3)
    path = quoted if quoted is not None else re.sub(r"\\(.)", r"\1", bare)
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    return path if path.startswith(("/", "~/")) and _PICTURE.search(path[-6:]) else ""


async def _followed(found: "_Found", context: ToolContext, authorize: Authorize, hosts: tuple[str, ...]) -> _Item:
    """Read what a mention refers to."""
    if found.resource:
        return await _resource(*found.resource, context, authorize)
    mention, is_folder = found.mention, os.path.isdir(found.real)
    if not found.real and not mention.is_quoted:
        return _Item(AttachmentSummary(mention.name.rstrip(_AFTER), "file", 0, "not attached: no such file"))
    if not found.real:
        return _left_out(mention.name, "file", "no such file")
    kind: AttachmentKind = "url" if _is_url(mention.name) else "folder" if is_folder else "file"
    if context.max_tokens() < _LEAST_TOKENS:
        tool = {"url": "web_fetch", "folder": "list_dir"}.get(kind, "read_file")
        return _left_out(mention.name, kind, f"there is no room left in the context; {tool} shows it")
    if kind == "url":
        return await _page(mention.name.rstrip(_AFTER), context, authorize, hosts)
    read = _folder if is_folder else _file
    return await read(mention, context, authorize)


async def _refused(found: "_Found", guard: Guard) -> _Item | None:
    """Return the substitute for a mention that a user hook refuses; None if no hook does."""
    if not found.real:
        return None
    action: Action = ReadPath(found.real, found.mention.name)
    kind: AttachmentKind = "folder" if os.path.isdir(found.real) else "file"
    if found.resource:
        action, kind = CallExternal(*found.resource), "resource"
    elif _is_url(found.mention.name):
        action, kind = Fetch(found.real, urlsplit(found.real).hostname or ""), "url"
    why = await guard(action)
    return _left_out(found.mention.name, kind, f"a hook refused it: {why}") if why else None


def _is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))


class _Found(msgspec.Struct, frozen=True):
    """A mention and its target: a real path (empty for a quoted one that does not exist) or a URL."""

    mention: _Mention
    real: str
    resource: tuple[str, str] | None = None
    """Server and URI."""

    @property
    def key(self) -> tuple[str, int, int]:
        """Identity of the target and the lines."""
        return self.real or self.mention.name, self.mention.first, self.mention.last


def _elsewhere(mention: _Mention, context: ToolContext) -> _Found | None:
    """Return a mention of a web page or MCP resource with its target; None for any other."""
    if _is_url(mention.name):
        return _Found(mention, mention.name)
    resource = context.resources.find(mention.name) if context.resources and not mention.is_picture else None
    return _Found(mention, ":".join(resource), resource) if resource else None


def _place(mention: _Mention, context: ToolContext) -> _Found | None:
    """Return the mention with its line range, without trailing punctuation, and with its real path; None if it is
    not a mention."""
    for candidate in _readings(mention):
        try:
            real = context.workspace.resolve(candidate.name).real
        except PathError:
            continue
        if os.path.exists(real):
            return None if mention.is_picture and not _is_picture(real) else _Found(candidate, real)
    looks_like_a_file = not mention.is_picture and _FILE.search(mention.name.rstrip(_AFTER))
    return _Found(mention, "") if mention.is_quoted or looks_like_a_file else None


def _readings(mention: _Mention) -> Iterator[_Mention]:
    """Yield the possible readings of a name, longest first: it may end in a line range or in punctuation."""
    yield mention
    name = mention.name
    for _ in range(0 if mention.is_quoted or len(name) > _LONGEST else _MOST_AFTER):
        if place := _LINES.fullmatch(name):
            first, last = int(place.group(2)), int(place.group(3) or place.group(2))
            yield msgspec.structs.replace(mention, name=place.group(1), first=first, last=last)
        if name[-1:] not in _AFTER or len(name) < 2:
            return
        name = name[:-1]
        yield msgspec.structs.replace(mention, name=name)


def _is_picture(real: str) -> bool:
    from agent_cli.tools.files.images import picture_kind

    try:
        fd, _ = open_regular(real, real)
    except FileError:
        return False
    try:
        return bool(picture_kind(b"".join(chunks(fd, 32))))
    finally:
        os.close(fd)


async def _file(mention: _Mention, context: ToolContext, authorize: Authorize) -> _Item:
    lines = {"offset": mention.first, "limit": max(1, mention.last - mention.first + 1)} if mention.first else {}
    tool, params = ReadFile(), ReadParams(path=mention.name, **lines)
    outcome = await _read(tool, params, mention.name, "file", context, authorize)
    if isinstance(outcome, _Item):
        return outcome
    if outcome.images:
        note = outcome.text.strip("[]").removeprefix(f"{mention.name}: ").removesuffix("; it is attached")
        tokens = IMAGE_TOKENS * len(outcome.images) + result_tokens(outcome.text)
        counted = AttachmentSummary(mention.name, "image", tokens, note)
        return _Item(counted, Attachment(mention.name, outcome.text), outcome.images, outcome.seen)
    name = mention.name + (f":{mention.first}-{mention.last}" if mention.first else "")
    note = "" if outcome.seen or mention.first else outcome.display
    return _as_text(name, "file", outcome, context, note)


async def _folder(mention: _Mention, context: ToolContext, authorize: Authorize) -> _Item:
    params = ListParams(path=mention.name, depth=_FOLDER_DEPTH)
    outcome = await _read(ListDir(), params, mention.name, "folder", context, authorize)
    return outcome if isinstance(outcome, _Item) else _as_text(mention.name, "folder", outcome, context)


async def _page(url: str, context: ToolContext, authorize: Authorize, hosts: tuple[str, ...]) -> _Item:
    from agent_cli.tools.web.fetch import WebFetch, WebFetchParams

    outcome = await _read(WebFetch(hosts), WebFetchParams(url), url, "url", context, authorize)
    return outcome if isinstance(outcome, _Item) else _as_text(url, "url", outcome, context)


async def _read(
    tool: Tool, params: Any, name: str, kind: AttachmentKind, context: ToolContext, authorize: Authorize
) -> ToolOutcome | _Item:
    """Read something with a tool. Return why it is not attached if a rule forbids it, or if it cannot be read."""
    try:
        if why := _refusal(tool.actions(params, context), authorize, name):
            return _left_out(name, kind, why)
        return await tool.run(params, context)
    except ToolError as error:
        return _left_out(name, kind, str(error))


async def _resource(server: str, uri: str, context: ToolContext, authorize: Authorize) -> _Item:
    assert context.resources is not None
    name = f"{server}:{uri}"
    if context.max_tokens() < _LEAST_TOKENS:
        return _left_out(name, "resource", "there is no room left in the context")
    try:
        if why := _refusal((CallExternal(server, uri),), authorize, name):
            return _left_out(name, "resource", why)
        outcome = await context.resources.read(server, uri)
    except ToolError as error:
        return _left_out(name, "resource", str(error))
    item = _as_text(name, "resource", outcome, context, "")
    return msgspec.structs.replace(item, images=outcome.images)


def _as_text(
    name: str, kind: AttachmentKind, outcome: ToolOutcome, context: ToolContext, note: str | None = None
) -> _Item:
    """Return a result as an attachment; the `note` for the user is the tool's own, unless another is given."""
    text, note = outcome.text, outcome.display if note is None else note
    if result_tokens(text) > context.max_tokens():
        kept = keep_whole(context.spill_dir, context.call_id, text, context.redactor)
        text = bounded(text, context.max_tokens(), str(kept) if kept else "")
        note = f"{note}, shortened" if note else "shortened"
    if outcome.untrusted:
        text = mark_untrusted(text, outcome.untrusted)
    attribute = {"url": "url", "resource": "uri"}.get(kind, "path")
    whole = f'<{kind} {attribute}="{_quoted(name)}">\n{text}\n</{kind}>'
    attachment = Attachment(name, whole, outcome.untrusted)
    return _Item(AttachmentSummary(name, kind, result_tokens(whole), note), attachment, seen=outcome.seen)


def _refusal(actions: tuple[Action, ...], authorize: Authorize, name: str) -> str:
    """Return why the user naming something is not enough to read it; empty if it is. A mode restricts the model
    and not the user, so its verdicts are ignored."""
    for action in actions:
        match authorize(action):
            case Allow():
                continue
            case Ask(by_mode=True) | Deny(by_mode=True):
                continue
            case Deny(rule=rule, reason=reason):
                return f"{reason} (decided by {rule})"
            case Ask(rule=rule, reason=reason):
                return f"{reason} (decided by {rule}); {_way(action, rule, name)}"
    return ""


def _way(action: Action, rule: str, name: str) -> str:
    """Describe how to read it anyway."""
    asking = "ask for it in your prompt, and allow the read when asked"
    is_lifted = isinstance(action, ReadPath) and (BUILT_IN_PLACE in rule or rule == "protected path")
    return f"{asking}, or add the rule `read({name})` under permissions.allow" if is_lifted else asking


def _left_out(name: str, kind: AttachmentKind, why: str) -> _Item:
    """Return a note that something was not attached. The model sees it too, so that it neither assumes the
    attachment nor tries to bypass a rule."""
    text = f"[{name} is not attached: {why}]"
    return _Item(AttachmentSummary(name, kind, 0, f"not attached: {why}"), Attachment(name, text))


def _quoted(value: str) -> str:
    return value.replace('"', "'").replace("<", "(").replace(">", ")")
