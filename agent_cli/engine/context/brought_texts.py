"""Attach to a prompt the texts that go along with it, such as the instructions of a skill that the user called."""

from agent_cli.protocol.messages import Attachment, AttachmentSummary
from agent_cli.protocol.operations import BroughtText
from agent_cli.session.placeholders import mark_untrusted
from agent_cli.tools.kit.output import result_tokens

from .mentions import Attachments


def attach_text(given: BroughtText, text: str, untrusted: str) -> Attachments:
    """Return a text as an attachment: `text` is the given one with the output of its commands, and `untrusted` is
    where what they printed came from."""
    body = mark_untrusted(text, given.source) if given.source else text
    source = given.source or untrusted
    summary = AttachmentSummary(given.name, given.kind, result_tokens(body))
    return Attachments(
        (Attachment(f"{given.kind} {given.name}", body, source),), untrusted=source, counted=(summary,)
    )


def origin_of(untrusted: str) -> Attachments:
    """Return what notes in a message that its own text holds text of others; nothing where it holds none."""
    if not untrusted:
        return Attachments()
    return Attachments((Attachment("output of a command", "", untrusted=untrusted),), untrusted=untrusted)
