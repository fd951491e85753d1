"""Attachments of a prompt: files, folders, web pages and MCP resources mentioned with `@`, images whose paths were
pasted, and what comes along with it, such as the instructions of a skill or the output of the user's own commands.

They are read when the prompt is sent, by the tools the model would use, and counted before anything is sent.
Naming a file is the user's consent to read it, wherever it is. What a rule denies, asks about or protects as a
secret is not read, and the user is told which rule. Names that match nothing, as in `@property`, are left alone.
"""

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from agent_cli.policy.rules.rule import BUILT_IN_PLACE
from agent_cli.protocol.actions import Action, Allow, Ask, CallExternal, Deny, Fetch, ReadPath, Verdict
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import Attachment, AttachmentKind, AttachmentSummary, Image, new_id
from agent_cli.protocol.operations import AttachedText, UserCommand
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.kit.base import Tool, ToolContext, ToolError, ToolOutcome
from agent_cli.tools.kit.output import bounded, keep_whole, opened_by, result_tokens
from agent_cli.tools.search.list_dir import ListDir, ListParams
from agent_cli.tools.shell.brought_text import brings_text
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
_NAME_CHARS = 100
"""Maximum characters of a command as the name of its output."""


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


Authorize = Callable[[Action], Verdict]
Guard = Callable[[Action], Awaitable[str]]
"""Given an action that would read something, returns why a user hook refuses it; empty if none does."""


async def unguarded(action: Action) -> str:
    """Allow everything."""
    return ""


async def guarded_images(paths: tuple[str, ...], images: tuple[Image, ...], guard: Guard) -> Attachments:
    """Return the images that no hook refuses, with a text for the model about the others."""
    brought = Attachments()
    for path, image in zip(paths, images, strict=True):
        why = await guard(ReadPath(path, path))
        refused = _left_out(path, "image", f"a hook refused it: {why}")
        brought = brought.joined(refused if why else Attachments(images=(image,)))
    return brought


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
    brought = Attachments()
    done: set[tuple[str, int, int]] = set()
    for mention in _mentions(text.encode("utf-8", "replace").decode("utf-8")):  # a path contains no lone surrogate
        found = _elsewhere(mention, context) or _place(mention, context)
        if found is not None and found.key not in done:
            done.add(found.key)
            item = await _refused(found, guard)
            item = item or await _followed(found, _with_room(context, left), authorize, private_hosts)
            brought = brought.joined(item)
            left -= item.counted[0].tokens
    return brought


def _with_room(context: ToolContext, tokens: int) -> ToolContext:
    """Return the context for one attachment, limited to the remaining tokens."""
    room = min(tokens, context.max_tokens())
    return context.for_call(new_id("mention"), max_tokens=lambda: room)


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


async def _followed(
    found: "_Found", context: ToolContext, authorize: Authorize, hosts: tuple[str, ...]
) -> Attachments:
    """Read what a mention refers to."""
    if found.resource:
        return await _resource(*found.resource, context, authorize)
    mention, is_folder = found.mention, os.path.isdir(found.real)
    if not found.real and not mention.is_quoted:
        return _one(AttachmentSummary(mention.name.rstrip(_AFTER), "file", 0, "not attached: no such file"))
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


async def _refused(found: "_Found", guard: Guard) -> Attachments | None:
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


async def _file(mention: _Mention, context: ToolContext, authorize: Authorize) -> Attachments:
    lines = {"offset": mention.first, "limit": max(1, mention.last - mention.first + 1)} if mention.first else {}
    tool, params = ReadFile(), ReadParams(path=mention.name, **lines)
    outcome = await _read(tool, params, mention.name, "file", context, authorize)
    if isinstance(outcome, Attachments):
        return outcome
    if outcome.images:
        note = outcome.text.strip("[]").removeprefix(f"{mention.name}: ").removesuffix("; it is attached")
        tokens = IMAGE_TOKENS * len(outcome.images) + result_tokens(outcome.text)
        counted = AttachmentSummary(mention.name, "image", tokens, note)
        return _one(counted, Attachment(mention.name, outcome.text), images=outcome.images, seen=outcome.seen)
    name = mention.name + (f":{mention.first}-{mention.last}" if mention.first else "")
    note = "" if outcome.seen or mention.first else outcome.display
    return _as_text(name, "file", outcome, context, note)


async def _folder(mention: _Mention, context: ToolContext, authorize: Authorize) -> Attachments:
    params = ListParams(path=mention.name, depth=_FOLDER_DEPTH)
    outcome = await _read(ListDir(), params, mention.name, "folder", context, authorize)
    return outcome if isinstance(outcome, Attachments) else _as_text(mention.name, "folder", outcome, context)


async def _page(url: str, context: ToolContext, authorize: Authorize, hosts: tuple[str, ...]) -> Attachments:
    from agent_cli.tools.web.fetch import WebFetch, WebFetchParams

    outcome = await _read(WebFetch(hosts), WebFetchParams(url), url, "url", context, authorize)
    return outcome if isinstance(outcome, Attachments) else _as_text(url, "url", outcome, context)


async def _read(
    tool: Tool, params: Any, name: str, kind: AttachmentKind, context: ToolContext, authorize: Authorize
) -> ToolOutcome | Attachments:
    """Read something with a tool. Return why it is not attached if a rule forbids it, or if it cannot be read."""
    try:
        if why := _refusal(tool.actions(params, context), authorize, name):
            return _left_out(name, kind, why)
        return await tool.run(params, context)
    except ToolError as error:
        return _left_out(name, kind, str(error))


async def _resource(server: str, uri: str, context: ToolContext, authorize: Authorize) -> Attachments:
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
    return msgspec.structs.replace(_as_text(name, "resource", outcome, context, ""), images=outcome.images)


def _as_text(
    name: str, kind: AttachmentKind, outcome: ToolOutcome, context: ToolContext, note: str | None = None
) -> Attachments:
    """Return a result as an attachment; the `note` for the user is the tool's own, unless another is given."""
    text = _fitting(outcome.text, context.call_id, context)
    notes = (outcome.display if note is None else note, "shortened" if text != outcome.text else "")
    if outcome.untrusted:
        text = mark_untrusted(text, outcome.untrusted)
    attribute = {"url": "url", "resource": "uri"}.get(kind, "path")
    whole = f'<{kind} {attribute}="{_quoted(name)}">\n{text}\n</{kind}>'
    attachment = Attachment(name, whole, outcome.untrusted)
    counted = AttachmentSummary(name, kind, result_tokens(whole), ", ".join(filter(None, notes)))
    return _one(counted, attachment, seen=outcome.seen)


def _fitting(text: str, name: str, context: ToolContext) -> str:
    """Return a text, or its head and tail if it is too long; all of it is then kept in a file."""
    if result_tokens(text) <= context.max_tokens():
        return text
    kept = keep_whole(context.spill_dir, name, text, context.redactor)
    return bounded(text, context.max_tokens(), opened_by(kept) if kept else "")


def _one(counted: AttachmentSummary, attachment: Attachment | None = None, **given: Any) -> Attachments:
    """Return one attachment; `given` sets further fields."""
    untrusted = attachment.untrusted if attachment else ""
    return Attachments((attachment,) if attachment else (), untrusted=untrusted, counted=(counted,), **given)


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


def _left_out(name: str, kind: AttachmentKind, why: str) -> Attachments:
    """Return a note that something was not attached. The model sees it too, so that it neither assumes the
    attachment nor tries to bypass a rule."""
    text = f"[{name} is not attached: {why}]"
    return _one(AttachmentSummary(name, kind, 0, f"not attached: {why}"), Attachment(name, text))


def _quoted(value: str) -> str:
    return value.replace('"', "'").replace("<", "(").replace(">", ")")


def attach_text(given: AttachedText, text: str, untrusted: str) -> Attachments:
    """Return a text as an attachment. `text` is the given one with the output of its commands inserted;
    `untrusted` is the source of that output."""
    body = mark_untrusted(text, given.source) if given.source else text
    attachment = Attachment(f"{given.kind} {given.name}", body, given.source or untrusted)
    return _one(AttachmentSummary(given.name, given.kind, result_tokens(body)), attachment)


def origin_of(untrusted: str) -> Attachments:
    """Return an empty attachment which records that a message contains untrusted text; nothing if it contains
    none."""
    if not untrusted:
        return Attachments()
    return Attachments((Attachment("output of a command", "", untrusted=untrusted),), untrusted=untrusted)


def attach_commands(commands: Sequence[UserCommand], context: ToolContext) -> Attachments:
    """Return the output of commands as attachments, shortened like a tool's result and marked as data."""
    brought = Attachments()
    for done in commands:
        output = done.output.strip("\n")
        text = _fitting(output, new_id("command"), context)
        marked = mark_untrusted(text or "(no output)", "a command that the user ran")
        command = done.command.replace("</user_command", "<\\/user_command")
        body = f'<user_command ended="{done.ended}">\n{command}\n{marked}\n</user_command>'
        name, note = f"!{done.command}"[:_NAME_CHARS], f"{done.ended}, shortened" if text != output else done.ended
        counted = AttachmentSummary(name, "command", result_tokens(body), note)
        brought = brought.joined(_one(counted, Attachment(name, body, brings_text(done.command))))
    return brought
