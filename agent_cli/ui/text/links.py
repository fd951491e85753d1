"""Links that a terminal opens (OSC 8): which terminals are known to support them, and which targets get one.

A terminal that does not know the sequence may print it, so the table names those that do, with the first version
that does so well. What a link leads to is shown in the text all the same, wherever it differs from the label.
"""

import re
from collections.abc import Mapping
from zlib import crc32

from agent_cli.protocol.sanitize import is_link

_PROGRAMS: dict[str, tuple[int, ...]] = {
    "iTerm.app": (3, 1), "WezTerm": (), "ghostty": (), "mintty": (2, 9, 7), "tmux": (3, 4), "vscode": (1, 72),
}  # fmt: skip
"""By `TERM_PROGRAM`, the least `TERM_PROGRAM_VERSION`."""
_VARIABLES: dict[str, int] = {
    "ALACRITTY_WINDOW_ID": 0, "GHOSTTY_RESOURCES_DIR": 0, "KITTY_WINDOW_ID": 0, "KONSOLE_VERSION": 201200,
    "VTE_VERSION": 5202, "WEZTERM_PANE": 0, "WT_SESSION": 0,
}  # fmt: skip
"""Variables that terminals set, with the least number where they hold a version. VTE before 0.52.2 may crash."""
_TERMS = ("alacritty", "foot", "wezterm", "xterm-ghostty", "xterm-kitty")
"""How `TERM` begins, which reaches the other end of SSH."""
_MULTIPLEXED = ("screen", "tmux")


def is_supported(environ: Mapping[str, str]) -> bool:
    """Return whether this terminal is known to open links. Inside tmux only tmux counts; screen has none."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    by_program = program in _PROGRAMS and (_version(environ.get("TERM_PROGRAM_VERSION", "")) >= _PROGRAMS[program])
    if environ.get("TMUX") or environ.get("STY") or term.startswith(_MULTIPLEXED):
        return program == "tmux" and by_program and not environ.get("STY")
    by_variable = any(
        environ.get(name) and (not least or _version(environ[name]) >= (least,))
        for name, least in _VARIABLES.items()
    )
    return by_program or by_variable or term.startswith(_TERMS)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: of `3.5a` and `next-3.5` three and five."""
    return tuple(map(int, re.findall(r"\d{1,9}", text)))


def linked(text: str, target: str) -> str:
    """Return `text`, painted already, as a link; as it is where the target is none that may be opened."""
    if not may_link(target):
        return text
    return f"{_opened(target)}{text}\x1b]8;;\x1b\\" if text else text


def may_link(target: str) -> bool:
    """Return whether a target may be opened: http, https or mailto, printable ASCII, no user name or password."""
    return bool(target) and is_link(_opened(target))


def _opened(target: str) -> str:
    """Return what begins a link; rows of one link share an id, so that a terminal marks them together."""
    return f"\x1b]8;id={crc32(target.encode('utf-8', 'replace')):x};{target}\x1b\\"
