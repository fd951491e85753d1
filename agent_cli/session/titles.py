"""The title of a conversation that nobody has named, made of its first prompt: shared by the file that is written
and the list that is shown."""

from agent_cli.protocol.lazy_regex import lazy_regex

MAX_CHARS = 60
_LEAD = lazy_regex(r"^(?:\s|#+(?=\s)|>+|[-*+](?=\s)|\d+[.)](?=\s)|```\w*|@\S+(?=\s)|/\w+(?=\s))+")
_MARKS = lazy_regex(r"[*`]+|(?<!\w)_+|_+(?!\w)")


def title_of(prompt: str) -> str:
    """One line of at most `MAX_CHARS` characters; empty for an empty prompt. Marks of Markdown and mentions that
    come first are left out, and a long line ends at a word."""
    lines = (" ".join(_MARKS.sub("", _LEAD.sub("", line)).split()) for line in prompt.splitlines())
    line = next((line for line in lines if line), "") or " ".join(prompt.split())
    if len(line) <= MAX_CHARS:
        return line
    cut = line[: MAX_CHARS - 1]
    word = cut.rpartition(" ")[0]
    return f"{word if len(word) > MAX_CHARS // 2 else cut}…"
