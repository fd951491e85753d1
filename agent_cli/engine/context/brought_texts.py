"""Attach the texts sent along with a prompt, such as the instructions of a skill that the user called."""

from agent_cli.protocol.messages import Attachment, AttachmentSummary
from agent_cli.protocol.operations import AttachedText
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.tools.kit.output import result_tokens

from .mentions import Attachments


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
