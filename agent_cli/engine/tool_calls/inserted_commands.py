"""Insert the output of shell commands into a text that contains them, such as a skill or a user's slash
command."""

import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.operations import InsertedCommand

_MOST = 20
_END = re.compile(r"\n?\[exit code 0, [\d.]+ s\]\Z")
"""Exit line of the shell tool, removed from text that continues."""

RunCommands = Callable[[Sequence[str]], Awaitable[Sequence[ToolResult]]]


class InsertedText(msgspec.Struct, frozen=True):
    """A text with the output of its commands."""

    text: str
    untrusted: str = ""
    """Source of the first untrusted text in it; empty if there is none."""


async def insert_output(text: str, insertions: Sequence[InsertedCommand], run: RunCommands) -> InsertedText:
    """Run the commands of a text in sequence, sharing shell state, and insert their output. For a command that was
    refused or failed, the reason is inserted."""
    found = [each for each in insertions if text.startswith(each.marker, each.at)]
    results = await run([each.command for each in found[:_MOST]])
    parts, end = [], 0
    for at, each in enumerate(found):
        said = _said(results[at]) if at < _MOST else f"(not run: a text runs at most {_MOST} commands)"
        parts += [text[end : each.at], said]
        end = each.at + len(each.marker)
    source = next((result.untrusted for result in results if result.untrusted), "")
    return InsertedText("".join([*parts, text[end:]]), source)


def _said(result: ToolResult) -> str:
    match result.status:
        case "ok":
            return _END.sub("", result.text)
        case "failed":
            return f"(the command failed)\n{result.text}"
        case _:
            return f"(the command was not run: {result.text})"
