"""Pictures that wait in the draft: each stands there as a mark, and goes along when its mark is sent."""

from agent_cli.protocol.messages import Image


class PastedImages:
    """The pictures of one draft."""

    def __init__(self) -> None:
        self._marked: dict[str, Image] = {}

    def add(self, picture: Image) -> str:
        """Keep a picture; gives the mark to put into the draft."""
        mark = f"[picture {len(self._marked) + 1}]"
        self._marked[mark] = picture
        return mark

    def take(self, text: str) -> tuple[Image, ...]:
        """The pictures whose marks are in a text, which is about to be sent."""
        return tuple(picture for mark, picture in self._marked.items() if mark in text)
