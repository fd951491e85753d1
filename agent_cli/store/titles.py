"""What a session is called as long as nobody has named it. Pure."""

import re

_LONGEST = 60
_LEAD = re.compile(r"(?:#{1,6}\s+|>\s*|[-*+]\s+|\d{1,3}[.)]\s+)+")
_MENTION = re.compile(r'(?:@(?:"[^"]*"|\S+)\s+)+(?=\S)')
_MARKS = re.compile(r"`+|\*\*|__|~~")


def auto_title(prompt: str) -> str:
    """The first line of a prompt that says something, without Markdown and leading mentions, at most 60 characters
    and cut between words; empty when there is none."""
    for line in prompt.splitlines():
        plain = " ".join(_MARKS.sub("", line).split())
        plain = _MENTION.sub("", _LEAD.sub("", plain, count=1), count=1).strip()
        if any(character.isalnum() for character in plain):
            return shortened(plain, _LONGEST)
    return ""


def shortened(text: str, most: int) -> str:
    """`text`, or as many of its words as fit `most` characters with an ellipsis."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    words = head.rpartition(" ")[0]
    return (words if len(words) > most // 2 else head).rstrip(" ,;:-") + "…"
