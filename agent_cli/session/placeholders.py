"""Substitutes sent in place of messages: shortened, dropped by the user, refused by the provider, or kept from a
part that was compacted. Pure, so that the same records always give the same bytes."""

import os

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Attachment, Message, ToolResult, UserMessage
from agent_cli.protocol.sanitize import marked_data

_SLACK = 100
"""Minimum number of characters that shortening must save."""
_KEPT_CHARS = 12_000
"""Maximum length of instructions that stay with the prompt of a turn when it is compacted."""


def placeholder(message: Message, reason: str) -> Message:
    """Return the substitute for a message that the provider refuses. Its calls stay, without their arguments."""
    return _instead(message, f"[This message cannot be sent: {reason}]")


def without_images(message: Message, reason: str) -> Message:
    """Return a message without its images, with a note in their place."""
    if isinstance(message, AssistantMessage):
        return message
    note = f"[Its images cannot be sent: {reason}]"
    return msgspec.structs.replace(message, text=f"{message.text}\n{note}".lstrip(), images=())


def dropped_placeholder(message: Message) -> Message:
    """Return the substitute for a message that the user dropped."""
    return _instead(message, "[The user removed this from the conversation.]")


def _instead(message: Message, text: str) -> Message:
    match message:
        case AssistantMessage():
            calls = tuple(msgspec.structs.replace(call, arguments="{}", signature="") for call in message.calls)
            return msgspec.structs.replace(message, text=text, reasoning=(), calls=calls)
        case UserMessage():
            return msgspec.structs.replace(message, text=text, images=(), attachments=())
        case ToolResult():
            return msgspec.structs.replace(message, text=text, images=())


def shorten(result: ToolResult, keep_chars: int) -> ToolResult:
    """Return the result with the middle of its text left out."""
    if len(result.text) <= keep_chars + _SLACK:
        return result
    head = result.text[: keep_chars // 4]
    tail = result.text[-(keep_chars - keep_chars // 4) :]
    left_out = len(result.text) - keep_chars
    gap = f"[… {left_out} characters of this result left out; recall {result.call_id} shows them …]"
    return msgspec.structs.replace(result, text=f"{head}\n{gap}\n{tail}", display="", images=())


def without_long_texts(message: AssistantMessage | ToolResult) -> Message:
    """Return the message without its long texts, to keep its place in the conversation."""
    bare = _instead(message, "")
    return msgspec.structs.replace(bare, display="") if isinstance(bare, ToolResult) else bare


def preserved_message(message: Message, turn_id: str) -> Message:
    """Return a message from a part compacted in a turn as sent after the summary: a user message without its
    attachments, except instructions that the turn still follows, or otherwise a note, because a call and its
    result may only be sent together."""
    match message:
        case UserMessage():
            is_current = bool(turn_id) and message.turn_id == turn_id
            kept = tuple(each for each in message.attachments if is_current and _instructs(each))
            gone = [
                f"[{each.name} was attached here; read it again if needed]"
                for each in message.attachments
                if each not in kept
            ]
            lead = "\n".join(part for part in (message.context, *gone) if part)
            return msgspec.structs.replace(message, context=lead, attachments=kept, images=())
        case AssistantMessage():
            said, words = "the model's answer", message.text
        case ToolResult():
            said, words = f"the result of {message.tool}", message.text
    text = f"[Kept from before the summary: {said}]\n{words}"
    return UserMessage(id=message.id, turn_id=message.turn_id, text=text, origin="hint")


def _instructs(attachment: Attachment) -> bool:
    """Return True for the instructions of a skill or a command, unless they are too long to be kept."""
    return attachment.name.startswith(("skill ", "instructions ")) and len(attachment.text) <= _KEPT_CHARS


def describe_message(message: Message) -> str:
    """Describe a message to the user in words."""
    match message:
        case UserMessage():
            return f"the message “{message.text.strip()[:60]}”"
        case AssistantMessage():
            return f"the model's answer “{message.text.strip()[:60]}”"
        case ToolResult():
            return f"the result of {message.tool}"


def mark_untrusted(text: str, source: str) -> str:
    """Mark untrusted text as data, between random marks that it cannot predict and so cannot close."""
    return marked_data(text, source, os.urandom(6).hex())
