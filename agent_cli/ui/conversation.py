"""Slash commands about the conversation itself: what fills the window, what is folded away, going back, going
another way, finding and keeping."""

from typing import get_args

from ..protocol.client import ContextItem, ContextPicture, RewindPoint
from ..protocol.operations import (
    Choice,
    Compact,
    KeepSummary,
    Mark,
    MarkMessage,
    Rename,
    Resolve,
    Rewind,
    Rewound,
    Uncompact,
    UserInput,
)
from ..protocol.sanitize import clean
from . import lines
from .desk import Command, Desk, Leaving

_BAR = 40
_LARGEST = 8
_MARKS: dict[str, Mark] = {"drop": "dropped", "pin": "pinned", "keep": ""}
_CHOICES: tuple[Choice, ...] = get_args(Choice)
_CHOICE_NAMES = {"keep": "mine", "take": "old"}
"""Other words for them, as other programs say."""
_WHATS: tuple[Rewound, ...] = get_args(Rewound)
_MAX_ROWS = 40


async def _compact(desk: Desk, argument: str) -> None:
    word, _, rest = argument.partition(" ")
    match word:
        case "undo" if not rest.strip():
            await desk.client.submit(Uncompact())
        case "preview":
            await desk.client.submit(Compact(rest.strip(), preview=True))
        case "edit" if not rest.strip():
            summary = desk.summary()
            if summary:
                desk.propose(
                    f"/compact keep {summary}", "The summary is in the input line: change it and press Enter."
                )
            else:
                desk.say("There is no summary yet; /compact preview writes one.")
        case "keep":
            await desk.client.submit(KeepSummary(rest.strip() or desk.summary()))
        case _:
            await desk.client.submit(Compact(argument))


async def _context(desk: Desk, argument: str) -> None:
    picture = desk.client.context()
    word, _, number = argument.partition(" ")
    if not word:
        desk.say("\n".join(drawn(picture, desk)), wrap=False)
        return
    item = _numbered(picture.items, number)
    if word not in _MARKS or item is None:
        desk.say("/context drop N takes a message out, pin N keeps it word for word, keep N takes either back.")
        return
    await desk.client.submit(MarkMessage(item.message_id, _MARKS[word]))
    was = " (it was pinned)" if item.mark == "pinned" and word == "drop" else ""
    desk.say(f"· {number.strip()} is {_MARKS[word] or 'as any other'}{was}: {lines.one_line(item.label, 80)}")


def _numbered(items: tuple[ContextItem, ...], number: str) -> ContextItem | None:
    number = number.strip()
    return items[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(items) else None


def drawn(picture: ContextPicture, desk: Desk) -> list[str]:
    """The window as a picture made of characters: how full it is, what fills it, what could go."""
    whole = picture.window or picture.budget
    full = min(_BAR, round(_BAR * picture.tokens / whole)) if whole else 0
    limit = min(_BAR - 1, round(_BAR * picture.compact_at / whole)) if whole else _BAR - 1
    cells = ["█" if at < full else "░" for at in range(_BAR)]
    cells[limit] = "┃"
    share = f" ({100 * picture.tokens // whole}%)" if picture.window else ""
    muted = desk.theme.paint
    rows = [
        f"  {''.join(cells)}  {lines.count(picture.tokens)} of {lines.count(picture.window)}{share}",
        muted("muted", f"  {picture.source}; reduced at {lines.count(picture.compact_at)} (┃)"),
    ]
    most = max((part.tokens for part in picture.parts), default=0)
    for part in sorted(picture.parts, key=lambda part: -part.tokens):
        if part.tokens:
            bar = "▪" * max(1, round(20 * part.tokens / most))
            rows.append(f"  {lines.one_line(part.name, 20):<20} {lines.count(part.tokens):>6}  {bar}")
    could = [f"{lines.one_line(p.name, 40)} {lines.count(p.tokens)}" for p in picture.can_go if p.tokens]
    if could:
        rows.append(muted("muted", f"  Could go: {', '.join(could)} tokens"))
    largest = sorted(enumerate(picture.items, start=1), key=lambda pair: -pair[1].tokens)
    if largest:
        rows.append(muted("muted", "  The largest (/context drop N, pin N, keep N):"))
    rows += [_row(number, item) for number, item in largest[:_LARGEST]]
    if marked := [_row(number, item) for number, item in largest[_LARGEST:] if item.mark]:
        rows += [muted("muted", "  Pinned or dropped:"), *marked]
    return rows


def _row(number: int, item: ContextItem) -> str:
    ago = f", {item.age} prompt{'s' if item.age > 1 else ''} ago" if item.age else ""
    mark = f" [{item.mark}]" if item.mark else ""
    return f"  {number:>4} {lines.count(item.tokens):>6}  {item.kind}{ago}{mark}: {lines.one_line(item.label, 60)}"


async def _rewind(desk: Desk, argument: str) -> None:
    points = desk.client.rewind_points()
    number, _, what = argument.partition(" ")
    if not points:
        desk.say("There is no prompt to go back to.")
        return
    if not number:
        desk.say("\n".join([*_listed(points), _REWIND_USAGE]), wrap=False)
        return
    chosen = next((each for each in _WHATS if each == (what.strip() or "both")), None)
    point = _point(points, number)
    if chosen is None or not number.isdecimal():
        desk.say(_REWIND_USAGE)
    elif point is None:
        desk.say(f"Prompt {lines.one_line(number, 20)} is not in the list; /rewind shows it.")
    else:
        await desk.client.submit(Rewind(point.turn_id, chosen))


_REWIND_USAGE = "/rewind N goes back to before prompt N; add code or conversation to take back only that."


def _point(points: tuple[RewindPoint, ...], number: str) -> RewindPoint | None:
    return next((point for point in points if str(point.number) == number.strip()), None)


def _listed(points: tuple[RewindPoint, ...]) -> list[str]:
    """The prompts one can go back to before, oldest first: the newest stands beside where the number is typed."""
    rows = [f"  … and {len(points) - _MAX_ROWS} earlier ones"] if len(points) > _MAX_ROWS else []
    for point in points[-_MAX_ROWS:]:
        files = f"{len(point.changed)} files" if len(point.changed) > 1 else "".join(point.changed)
        facts = files or ("files changed" if point.has_checkpoint else "no file changed")
        prompt = lines.one_line(point.prompt, 70)
        rows.append(f"  {point.number:>3}  {lines.ago(point.time):>10}  {prompt}  ({facts})")
    return rows


async def _resolve(desk: Desk, argument: str) -> None:
    word, _, paths = argument.partition(" ")
    choice = next((each for each in _CHOICES if each == _CHOICE_NAMES.get(word, word)), None)
    if choice is None:
        desk.say(
            "/resolve mine, old or merge, and the files it is for (all, if none): what the last undo left alone."
        )
        return
    await desk.client.submit(Resolve(choice, tuple(paths.split())))


async def _rename(desk: Desk, argument: str) -> None:
    if argument:
        await desk.client.submit(Rename(argument))
    else:
        desk.say(
            f"This session is called “{lines.one_line(desk.client.snapshot().title)}”; /rename NAME changes it."
        )


async def _fork(desk: Desk, argument: str) -> None:
    now, points = desk.client.snapshot(), desk.client.rewind_points()
    if not now.session_path or not points:
        desk.say("There is nothing to go another way from yet.")
    elif not argument:
        desk.leave(Leaving("fork", now.session_id))
    elif point := _point(points, argument):
        desk.leave(Leaving("fork", now.session_id, point.turn_id))
    else:
        wrong = [f"Prompt {argument} is not in the list."] if argument.isdecimal() else []
        usage = "/fork N begins a new session with what came before prompt N."
        desk.say("\n".join([*_listed(points), *wrong, usage]), wrap=False)


async def _search(desk: Desk, argument: str) -> None:
    if not argument:
        desk.say("/search WORDS finds what was said, in all sessions.")
        return
    rows = []
    for hit in (await desk.host.search(argument))[:_MAX_ROWS]:
        facts = desk.theme.paint("muted", f"{hit.id}  {hit.when} · {lines.one_line(hit.title, 60)}")
        rows += [f"  {facts}", f"    {hit.who}: {lines.one_line(hit.snippet, 160)}"]
    desk.say("\n".join([*rows, "/resume ID opens one."]) if rows else "Nothing was found.")


async def _export(desk: Desk, argument: str) -> None:
    if not desk.client.snapshot().session_path:
        desk.say("This session is not saved, so there is nothing to export.")
        return
    desk.say(clean(await desk.host.export(argument)))


async def _init(desk: Desk, argument: str) -> None:
    await desk.client.submit(UserInput(desk.host.init_prompt(argument)))


async def _memory(desk: Desk, argument: str) -> None:
    blocks = desk.host.memory()
    chosen = [block for block in blocks if block.label == argument]
    if argument and not chosen:
        desk.say(
            f"There is no block {lines.one_line(argument, 40)}: {', '.join(block.label for block in blocks)}."
        )
        return
    rows = []
    for block in chosen or blocks:
        mode = ", read-only" if block.read_only else ""
        rows.append(f"  {block.label:<10} {len(block.text)} of {block.limit} characters{mode}")
        rows.append(desk.theme.paint("muted", f"    {clean(block.path)}"))
        rows += [f"    {row}" for row in clean(block.text).splitlines()] if chosen else []
    desk.say("\n".join([*rows, "They are Markdown files: change them with any editor."]), wrap=False)


COMMANDS = (
    Command(
        "compact",
        "[FOCUS|preview|edit|keep|undo]",
        "shorten the conversation; see, change or take back the summary",
        _compact,
        lambda desk: ("preview", "edit", "keep", "undo"),
    ),
    Command(
        "context",
        "[drop|pin|keep N]",
        "what fills the window, and what may go",
        _context,
        lambda desk: _MARKS,
    ),
    Command("rewind", "[N] [code|conversation]", "go back to before an earlier prompt", _rewind),
    Command(
        "resolve",
        "mine|old|merge [FILE…]",
        "decide on files that an undo left alone",
        _resolve,
        lambda desk: _CHOICES,
    ),
    Command("rename", "[NAME]", "give the session a name", _rename),
    Command("fork", "[N]", "go on in a copy, from here or from before prompt N", _fork, idle=True),
    Command("search", "WORDS", "find what was said, in all sessions", _search),
    Command("export", "[FILE]", "write the session as Markdown, HTML or JSON", _export),
    Command("init", "[FOCUS]", "have the model write AGENTS.md", _init),
    Command(
        "memory",
        "[BLOCK]",
        "what is kept for later conversations",
        _memory,
        lambda desk: (block.label for block in desk.host.memory()),
    ),
)
