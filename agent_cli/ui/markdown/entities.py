"""The 2,200 named characters of HTML, such as `&copy;`, for the Markdown parser: loaded when a text has one, since
they take 0.9 MB and few conversations have any."""

import sys
from types import ModuleType

_TABLE = "markdown_it.common.entities"


class _Entities(dict[str, str]):
    """Name without its semicolon → characters; filled at the first question."""

    def __contains__(self, name: object) -> bool:
        self._fill()
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self._fill()
        return super().__getitem__(name)

    def _fill(self) -> None:
        if not self:
            from html.entities import html5

            self.update((name.rstrip(";"), characters) for name, characters in html5.items())


def defer_entities() -> None:
    """Have the Markdown parser take its table from here; nothing where it has loaded its own."""
    if _TABLE not in sys.modules:
        table = ModuleType(_TABLE)
        table.entities = _Entities()  # type: ignore[attr-defined]
        sys.modules[_TABLE] = table
