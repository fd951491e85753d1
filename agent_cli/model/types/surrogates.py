"""Halves of characters: some servers cut an emoji's two UTF-16 halves apart, and UTF-8 can hold neither."""


def join_surrogates(text: str) -> str:
    """The text with adjoining halves joined into the character they are, and lone ones replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
