"""Attach what comes along with a prompt: texts such as the instructions of a skill that the user called, and the
output of the user's own shell commands since the last prompt."""

from collections.abc import Sequence

from agent_cli.protocol.messages import Attachment, AttachmentSummary, new_id
from agent_cli.protocol.operations import AttachedText, UserCommand
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.kit.output import bounded, keep_whole, result_tokens
from agent_cli.tools.shell.shell import brings_text

from .mentions import Attachments

_NAME_CHARS = 100


def attach_text(given: AttachedText, text: str, untrusted: str) -> Attachments:
    """Return a text as an attachment. `text` is the given one with the output of its commands inserted;
    `untrusted` is the source of that output."""
    body = mark_untrusted(text, given.source) if given.source else text
    source = given.source or untrusted
    summary = AttachmentSummary(given.name, given.kind, result_tokens(body))
    return Attachments(
        (Attachment(f"{given.kind} {given.name}", body, source),), untrusted=source, counted=(summary,)
    )


def origin_of(untrusted: str) -> Attachments:
    """Return an empty attachment which records that a message contains untrusted text; nothing if it contains
    none."""
    if not untrusted:
        return Attachments()
    return Attachments((Attachment("output of a command", "", untrusted=untrusted),), untrusted=untrusted)


def attach_commands(commands: Sequence[UserCommand], context: ToolContext) -> Attachments:
    """Return the output of commands as attachments, shortened like a tool's result and marked as data."""
    found = [_attached(each, context) for each in commands]
    return Attachments(
        attachments=tuple(attachment for attachment, _ in found),
        untrusted=next((attachment.untrusted for attachment, _ in found if attachment.untrusted), ""),
        counted=tuple(summary for _, summary in found),
    )


def _attached(done: UserCommand, context: ToolContext) -> tuple[Attachment, AttachmentSummary]:
    text, note = done.output.strip("\n"), done.ended
    if result_tokens(text) > context.max_tokens():
        whole = keep_whole(context.spill_dir, new_id("command"), text, context.redactor)
        text = bounded(text, context.max_tokens(), str(whole) if whole else "")
        note += ", shortened"
    source = brings_text(done.command)
    marked = mark_untrusted(text or "(no output)", "a command that the user ran")
    command = done.command.replace("</user_command", "<\\/user_command")
    body = f'<user_command ended="{done.ended}">\n{command}\n{marked}\n</user_command>'
    name = f"!{done.command}"[:_NAME_CHARS]
    return Attachment(name, body, source), AttachmentSummary(name, "command", result_tokens(body), note)
