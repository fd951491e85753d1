"""Slash commands on the conversation itself: context window, compaction, undo, rewind and memory."""

from typing import get_args

from agent_cli.protocol.client import ContextItem, ContextPicture, RewindPoint
from agent_cli.protocol.operations import Choice as Decided
from agent_cli.protocol.operations import (
    Compact,
    KeepSummary,
    Mark,
    MarkMessage,
    Redo,
    Resolve,
    Rewind,
    Rewound,
    Uncompact,
    Undo,
    UserInput,
)
from agent_cli.protocol.sanitize import clean

from ..text import lines
from .api import Choice, CommandContext

_NOTICED = 0.1
"""Share of the whole by which the parts may miss it without a word."""
_BAR = 40
_LARGEST = 8
_MAX_ROWS = 40
_MARKS: dict[str, Mark] = {"drop": "dropped", "pin": "pinned", "keep": ""}
_DECIDED: tuple[Decided, ...] = get_args(Decided)
_OTHER_WORDS = {"keep": "mine", "take": "old"}
"""Words that other programs use for the same choices."""


async def compact(context: CommandContext, argument: str) -> None:
    """`/compact [FOCUS|preview[: FOCUS]|edit|keep[: TEXT]|undo]`: compact the conversation; show, change or undo
    the summary. These words count only alone or before a colon: any other text is the focus of the summary."""
    word, colon, rest = argument.partition(":")
    match word:
        case "undo" if not colon:
            await context.submit(Uncompact())
        case "preview":
            await context.submit(Compact(rest.strip(), preview=True))
        case "edit" if not colon:
            summary = context.summary()
            if summary:
                context.prefill(
                    f"/compact keep: {summary}", "The summary is in the input line: change it and press Enter."
                )
            else:
                context.say("There is no summary yet; /compact preview writes one.")
        case "keep":
            await context.submit(KeepSummary(rest.strip() or context.summary()))
        case _:
            await context.submit(Compact(argument))


async def context(context: CommandContext, argument: str) -> None:
    """`/context [drop|pin|keep N]`: show what fills the context window and what may be dropped."""
    picture = context.client.context()
    word, _, number = argument.partition(" ")
    if not word:
        context.say("\n".join(render_context(picture, context)), wrap=False)
        return
    numbered = {str(at): item for at, item in enumerate(picture.items, 1)}
    item = numbered.get(number.strip().lstrip("0"))
    if word in _MARKS and number.strip().isdecimal() and item is None:
        context.say(f"There is no message {number.strip()} in the list; /context shows it.")
        return
    if word not in _MARKS or item is None:
        context.say("/context drop N removes a message, pin N keeps it word for word, keep N takes either back.")
        return
    await context.submit(MarkMessage(item.message_id, _MARKS[word], int(number)))
    was = " (it was pinned)" if item.mark == "pinned" and word == "drop" else ""
    context.say(f"· {number.strip()} is {_MARKS[word] or 'as any other'}{was}: {lines.one_line(item.label, 80)}")


def render_context(picture: ContextPicture, context: CommandContext) -> list[str]:
    """Draw the context window as text: its usage, its contents, and what could be dropped."""
    width = context.columns

    def muted(text: str) -> list[str]:
        return [context.theme.paint("muted", row) for row in lines.wrap(text, width)]

    rows = [
        _fullness(picture, width),
        *muted(f"  {picture.source}; auto-compacts at {lines.count(picture.compact_at)} (┃)"),
    ]
    estimated = sum(part.tokens for part in picture.parts)
    if abs(estimated - picture.tokens) > _NOTICED * picture.tokens:
        rows += muted(f"  The parts are estimated by their length, {lines.count(estimated)} in all:")
    most = max((part.tokens for part in picture.parts), default=0)
    for part in sorted(picture.parts, key=lambda part: -part.tokens):
        if part.tokens:
            bar = "▪" * max(1, round(max(1, min(20, width - 32)) * part.tokens / most))
            rows.append(f"  {lines.one_line(part.name, 20):<20} {lines.count(part.tokens):>6}  {bar}")
    could = [f"{lines.one_line(p.name, 40)} {lines.count(p.tokens)}" for p in picture.can_go if p.tokens]
    if could:
        rows += muted(f"  Reclaimable: {', '.join(could)} tokens")
    largest = sorted(enumerate(picture.items, start=1), key=lambda pair: -pair[1].tokens)
    if largest:
        rows += muted("  The largest (/context drop N, pin N, keep N):")
    rows += [lines.truncate(_row(number, item), width) for number, item in largest[:_LARGEST]]
    if marked := [(number, item) for number, item in largest[_LARGEST:] if item.mark]:
        rows += muted("  Pinned or dropped:")
        rows += [lines.truncate(_row(number, item), width) for number, item in marked]
    return rows


def _fullness(picture: ContextPicture, width: int) -> str:
    """Return the usage of the context window, as a bar and in numbers."""
    whole = picture.window or picture.budget
    share = f" ({100 * picture.tokens // whole}%)" if picture.window else ""
    said = f"{lines.count(picture.tokens)} of {lines.count(picture.window)}{share}"
    columns = max(8, min(_BAR, width - len(said) - 4))
    full = min(columns, round(columns * picture.tokens / whole)) if whole else 0
    limit = min(columns - 1, round(columns * picture.compact_at / whole)) if whole else columns - 1
    cells = ["█" if at < full else "░" for at in range(columns)]
    cells[limit] = "┃"
    return f"  {''.join(cells)}  {said}"


def _row(number: int, item: ContextItem) -> str:
    ago = f", {lines.number(item.age, 'prompt')} ago" if item.age else ""
    mark = f" [{item.mark}]" if item.mark else ""
    return f"  {number:>4} {lines.count(item.tokens):>6}  {item.kind}{ago}{mark}: {lines.one_line(item.label, 60)}"


async def undo(context: CommandContext, argument: str) -> None:
    """`/undo [N] [code|conversation]`: undo the last turns and their file changes, or only one of them."""
    words = argument.split()
    what = next((each for each in _WHATS if words[-1:] == [each]), None)
    number = " ".join(words[:-1] if what else words) or "1"
    if not (number.isdecimal() and int(number) > 0):
        context.say("/undo takes a number of turns; add code or conversation to undo only that.")
        return
    turns, points = int(number), context.client.rewind_points()
    if 0 < len(points) < turns:
        context.say(
            f"There {'is' if len(points) == 1 else 'are'} only {lines.number(len(points), 'turn')} to undo."
        )
    if points and what is not None and what != "both":
        first = points[-turns:][0]
        await context.submit(Rewind(first.turn_id, what, first.number))
    else:
        await context.submit(Undo(turns))


async def redo(context: CommandContext, argument: str) -> None:
    """`/redo`: revert the last undo."""
    await context.submit(Redo())


async def retry(context: CommandContext, argument: str) -> None:
    """`/retry`: continue after a stop or a failure."""
    if not context.client.snapshot().unfinished:
        context.say("There is nothing to retry: no turn was stopped or has failed. Nothing was sent.")
        return
    await context.submit(UserInput(""))


_REWIND_USAGE = "/rewind N goes back to before prompt N; add code or conversation to rewind only that."
_WHATS: dict[Rewound, str] = {
    "both": "files and conversation",
    "code": "only the files",
    "conversation": "only the conversation",
}
"""The parts that a rewind can restore, in words."""


async def rewind(context: CommandContext, argument: str) -> None:
    """`/rewind [N] [code|conversation]`: go back to the state before an earlier prompt."""
    points = context.client.rewind_points()
    number, _, what = argument.partition(" ")
    if not points:
        context.say("There is no prompt to go back to yet.")
        return
    if not number:
        number = await context.pick("Go back to before which prompt?", _choices(points))
        if number:
            picks = [Choice(value, meaning) for value, meaning in _WHATS.items()]
            what = await context.pick("What should go back?", picks)
        if not number or not what:
            return
    chosen = next((each for each in _WHATS if each == (what.strip() or "both")), None)
    found = find_point(points, number)
    if chosen is None or not number.isdecimal():
        context.say(_REWIND_USAGE)
    elif found is None:
        context.say(f"Prompt {lines.one_line(number, 20)} is not in the list; /rewind shows it.")
    else:
        await context.submit(Rewind(found.turn_id, chosen, found.number))


async def resolve(context: CommandContext, argument: str) -> None:
    """`/resolve mine|old|merge [FILE…]`: resolve files that an undo skipped."""
    word, _, paths = argument.partition(" ")
    choice = next((each for each in _DECIDED if each == _OTHER_WORDS.get(word, word)), None)
    if choice is None:
        context.say(
            "/resolve mine, old or merge, and the files it is for (all, if none): what the last undo skipped."
        )
        return
    await context.submit(Resolve(choice, tuple(paths.split())))


async def init(context: CommandContext, argument: str) -> None:
    """`/init [FOCUS]`: have the model write AGENTS.md."""
    await context.submit(context.host.init_input(argument))


async def memory(context: CommandContext, argument: str) -> None:
    """`/memory [BLOCK|undo]`: show the memory kept for later conversations; `undo` removes the last `#note`."""
    if argument == "undo":
        context.say(context.host.undo_note())
        return
    blocks = context.host.memory()
    chosen = [block for block in blocks if block.label == argument]
    if argument and not chosen:
        context.say(
            f"There is no block {lines.one_line(argument, 40)}: {', '.join(block.label for block in blocks)}."
        )
        return
    rows = []
    for block in chosen or blocks:
        mode = ", read-only" if block.read_only else ""
        rows.append(f"  {block.label:<10} {len(block.text)} of {block.limit} characters{mode}")
        rows.append(context.theme.paint("muted", f"    {clean(block.path)}"))
        rows += [f"    {row}" for row in clean(block.text).splitlines()] if chosen else []
    context.say("\n".join([*rows, "They are Markdown files: change them with any editor."]), wrap=False)


def find_point(points: tuple[RewindPoint, ...], number: str) -> RewindPoint | None:
    """Return the rewind point with this number."""
    return next((each for each in points if str(each.number) == number.strip()), None)


def render_points(points: tuple[RewindPoint, ...]) -> list[str]:
    """Return a row for each rewind point, oldest first, so that the newest is next to the input line."""
    rows = [f"  … and {len(points) - _MAX_ROWS} earlier ones"] if len(points) > _MAX_ROWS else []
    for each in points[-_MAX_ROWS:]:
        prompt = lines.one_line(each.prompt, 70)
        rows.append(f"  {each.number:>3}  {lines.ago(each.time):>10}  {prompt}  ({_changed_files(each)})")
    return rows


def _choices(points: tuple[RewindPoint, ...]) -> list[Choice]:
    """Return the rewind points as choices, newest first; the value is the number."""
    return [
        Choice(
            str(each.number),
            lines.one_line(each.prompt, 100),
            f"{each.number} · {lines.ago(each.time)} · {_changed_files(each)}",
        )
        for each in reversed(points)
    ]


def _changed_files(each: RewindPoint) -> str:
    if each.files != "changed":
        return "files already undone" if each.files == "undone" else "no file changed"
    files = f"{len(each.changed)} files" if len(each.changed) > 1 else "".join(each.changed)
    return lines.one_line(files, 60) or "files changed"
