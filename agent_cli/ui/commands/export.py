"""Slash commands that export from the conversation: to the clipboard, to a file, or as a bug report."""

import re

from agent_cli.protocol.sanitize import clean

from ..text import lines
from .api import CommandContext

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TERMINALS_KEEP_BYTES = 70_000
"""Most terminals accept this many bytes for the clipboard (OSC 52); a few accept less, some more."""


async def copy(context: CommandContext, argument: str) -> None:
    """`/copy [last|code|N]`: copy the last answer as written, its last code block, or its N-th."""
    answer = context.client.snapshot().last_answer
    if not answer.strip():
        context.say("There is no answer to copy yet.")
        return
    word = argument.lower() or "last"
    if word == "last":
        await _copied(context, answer, "the last answer")
        return
    if word != "code" and not word.isdecimal():
        context.say("/copy takes the last answer, /copy code its last block of code, /copy N its N-th.")
        return
    blocks = code_blocks(answer)
    number = len(blocks) if word == "code" else int(word)
    if not 0 < number <= len(blocks):
        many = f"only {lines.number(len(blocks), 'block')}" if blocks else "no block"
        context.say(f"The last answer has {many} of code.")
    else:
        await _copied(context, blocks[number - 1], f"block {number} of {len(blocks)}")


def code_blocks(answer: str) -> list[str]:
    """Return the contents of the fenced and indented code blocks of a Markdown text, in order."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(answer)
    return [token.content for token in tokens if token.type in ("fence", "code_block")]


async def _copied(context: CommandContext, text: str, what: str) -> None:
    """Copy a text without its final line break, which would make a shell run it as soon as it is pasted."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    plain = _CONTROLS.sub("", text).strip("\n")
    count = plain.count("\n") + 1
    amount = f"{what}, {lines.number(count, 'line')}"
    notes = ["Control characters in it were left out."] if _CONTROLS.search(text) else []
    notes += ["It holds characters that cannot be seen."] if clean(plain) != plain else []
    if program := await context.host.copy(plain):
        said = f"Copied {amount}, by {clean(program)}."
    elif context.to_clipboard(plain):
        said = f"Copied {amount}, through the terminal (OSC 52; not every terminal supports it)."
        if len(plain.encode()) > _TERMINALS_KEEP_BYTES:
            notes.append(f"It is long: many terminals keep no more than {_TERMINALS_KEEP_BYTES:,} bytes.")
    else:
        said = "Not copied: no clipboard can be reached from here. /export writes the session to a file."
    context.say(" ".join([said, *notes]))


async def export(context: CommandContext, argument: str) -> None:
    """`/export [FILE]`: write the session as Markdown, HTML or JSON."""
    if not context.client.snapshot().session_path:
        context.say("This session is not saved, so there is nothing to export.")
        return
    context.say(clean(await context.host.export(argument)))


async def bug(context: CommandContext, argument: str) -> None:
    """`/bug`: write a bug report to a file; nothing is sent."""
    context.say("Writing a report; nothing is sent…")
    context.say(clean(await context.host.bug({"colours": "yes" if context.theme.colour else "no"})), wrap=False)
