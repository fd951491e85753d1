"""Default title of a conversation, derived from its first prompt. Shared by the writer of session files and the
list of sessions."""

from agent_cli.protocol.lazy_regex import lazy_regex

MAX_CHARS = 60
_LEAD = lazy_regex(r"^(?:\s|#+(?=\s)|>+|[-*+](?=\s)|\d+[.)](?=\s)|```\w*|@\S+(?=\s)|/\w+(?=\s))+")
_MARKS = lazy_regex(r"[*`]+|(?<!\w)_+|_+(?!\w)")


def title_of(prompt: str) -> str:
    """Return one line of at most `MAX_CHARS` characters; empty for an empty prompt. Leading Markdown marks and
    mentions are removed, and a long line is cut at a word."""
    lines = (" ".join(_MARKS.sub("", _LEAD.sub("", line)).split()) for line in prompt.splitlines())
    line = next((line for line in lines if line), "") or " ".join(prompt.split())
    if len(line) <= MAX_CHARS:
        return line
    cut = line[: MAX_CHARS - 1]
    word = cut.rpartition(" ")[0]
    return f"{word if len(word) > MAX_CHARS // 2 else cut}…"
