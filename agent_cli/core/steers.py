"""Guidance that was typed for the running turn and has not reached the model yet."""


class Steers(list[str]):
    """Texts, oldest first."""

    def take_back(self, text: str) -> bool:
        """Take one out, of equal texts the newest; False when none waits."""
        at = max((at for at, held in enumerate(self) if held == text), default=-1)
        return at >= 0 and self.pop(at) == text
