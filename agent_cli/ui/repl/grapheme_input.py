"""The input line on the screen: what several code points draw as one sign is shown as one that every terminal
and library gives the same width, so that the cursor stands where the next letter comes; and what would not be
seen, or would turn the rest around, is spelled out. The text itself stays as it is."""

import re

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from agent_cli.protocol.sanitize import visible

_TAB = 4
_CLUSTER = re.compile(
    "(?P<flag>[\U0001f1e6-\U0001f1ff]{2})"
    "|(?P<base>[^\\s])(?P<more>(?:[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|\u200d[^\\s])+)"
)


class GraphemeProcessor(Processor):
    """Shows an emoji sequence by its first sign, a flag by its two letters."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """The fragments to draw, and how positions map."""
        fragments = transformation_input.fragments
        text = "".join(fragment[1] for fragment in fragments)
        if text.isprintable() and (text.isascii() or not _CLUSTER.search(text)):
            return Transformation(fragments)
        styles = [fragment[0] for fragment in fragments for _ in fragment[1]]
        shown: StyleAndTextTuples = []
        to_display: list[int] = []
        columns = 0
        for style, drawn in zip(styles, _drawn(text), strict=True):
            to_display.append(columns)
            columns += len(drawn)
            if drawn:
                shown.append((style, drawn))
        to_source = {display: source for source, display in reversed(list(enumerate(to_display)))}
        beyond = columns - len(text)
        return Transformation(
            shown,
            source_to_display=lambda at: to_display[at] if at < len(to_display) else at + beyond,
            display_to_source=lambda at: to_source.get(at, at - beyond),
        )


def _drawn(text: str) -> list[str]:
    """What is drawn for each code point: nothing for those that belong to the one before."""
    drawn = [" " * _TAB if char == "\t" else visible(char) if not char.isprintable() else char for char in text]
    for found in _CLUSTER.finditer(text):
        start, end = found.span()
        if found["flag"]:
            drawn[start:end] = [chr(ord(char) - 0x1F1E6 + ord("A")) for char in found["flag"]]
        else:
            drawn[start + 1 : end] = [""] * (end - start - 1)
    return drawn
