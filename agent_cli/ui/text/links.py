"""Terminal hyperlinks (OSC 8): which terminals are known to support them, and which targets are linked.

A terminal that does not know the sequence may print it, so the table lists those that support it, with the first
version that does so reliably. The target of a link is also shown in the text if it differs from the label.
"""

import re
from collections.abc import Mapping
from zlib import crc32

from agent_cli.protocol.sanitize import is_link

_PROGRAMS: dict[str, tuple[int, ...]] = {
    "iTerm.app": (3, 1), "WezTerm": (), "ghostty": (), "mintty": (2, 9, 7), "tmux": (3, 4), "vscode": (1, 72),
}  # fmt: skip
"""Minimum `TERM_PROGRAM_VERSION`, by `TERM_PROGRAM`."""
_VARIABLES: dict[str, int] = {
    "ALACRITTY_WINDOW_ID": 0, "GHOSTTY_RESOURCES_DIR": 0, "KITTY_WINDOW_ID": 0, "KONSOLE_VERSION": 201200,
    "VTE_VERSION": 5202, "WEZTERM_PANE": 0, "WT_SESSION": 0,
}  # fmt: skip
"""Variables that terminals set, with the minimum number if they contain a version. VTE before 0.52.2 may crash."""
_TERMS = ("alacritty", "foot", "wezterm", "xterm-ghostty", "xterm-kitty")
"""Prefixes of `TERM`, which SSH passes on."""
_MULTIPLEXED = ("screen", "tmux")


def is_supported(environ: Mapping[str, str]) -> bool:
    """Return True if this terminal is known to open links. Inside tmux only tmux counts; screen does not support
    links."""
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
    """Return the numbers of a version: 3 and 5 for `3.5a` and `next-3.5`."""
    return tuple(map(int, re.findall(r"\d{1,9}", text)))


def linked(text: str, target: str) -> str:
    """Return `text`, already painted, as a link; unchanged if the target must not be opened."""
    if not may_link(target):
        return text
    return f"{_opened(target)}{text}\x1b]8;;\x1b\\" if text else text


def may_link(target: str) -> bool:
    """Return True if a target may be opened: http, https or mailto, printable ASCII, no user name or password."""
    return bool(target) and is_link(_opened(target))


def _opened(target: str) -> str:
    """Return the sequence that begins a link; rows of a link share an id, so that a terminal highlights them
    together."""
    return f"\x1b]8;id={crc32(target.encode('utf-8', 'replace')):x};{target}\x1b\\"
