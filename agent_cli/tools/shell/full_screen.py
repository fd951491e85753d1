"""Recognise programs that need a terminal, which commands here do not have: editors, pagers, monitors.

Most end at once without one; those that wait for keys are stopped after `GRACE_S` instead of at the time-out.
"""

import re

import msgspec

GRACE_S = 3.0
"""How long such a program may run: time enough to end by itself."""


class FullScreen(msgspec.Struct, frozen=True):
    """A program of a command line that needs a terminal, and what to use in its place."""

    program: str
    instead: str


_EDIT = "change files with edit_file or write_file; set GIT_EDITOR=true where git opens one"
_PAGE = "use cat, head or read_file"
_WATCH = "run the command itself, once"
_MONITOR = "use `ps aux --sort=-%cpu` or `top -b -n 1`"
_BROWSE = "use the commands that it stands for"
_TABLE: tuple[tuple[str, str, str], ...] = (
    (r"vi|vim|view|vimdiff|nvim|ex", r"-\w*[eE]s|-es?\b|--headless|--version|-c\s*\S*q|\+\S*q", _EDIT),
    (r"nano|pico|micro|joe|ne|mcedit|hx|helix|kak", r"--version", _EDIT),
    (r"emacs", r"--?batch|--script|--daemon|--version|-x\b", _EDIT),
    (r"less|more|most", r"--version", _PAGE),
    (r"watch", r"--version", _WATCH),
    (r"top|iotop", r"-\w*b|-\w*l\b|--version", _MONITOR),
    (r"htop|btop|atop|bashtop|nvtop|glances", r"--version|--stdout|--export", _MONITOR),
    (r"mc|ranger|nnn|lf|tig|lazygit|gitui|lazydocker|k9s", r"--version", _BROWSE),
)
"""Programs, the options with which they need no terminal, and what to use instead."""
_FIRST_WORDS = re.compile(
    r"(?:^|[;&|({\n])\s*(?:\w+=\S*\s+|(?:then|do|else|sudo|env|exec|command|time|nice|nohup)\s+)*([\w./-]+)"
    r"([^;&|\n]*)"
)


def full_screen_program(line: str) -> FullScreen | None:
    """Find the first simple command of a line that needs a terminal; None where there is none."""
    for name, arguments in _FIRST_WORDS.findall(line):
        program = name.rpartition("/")[2]
        for programs, harmless, instead in _TABLE:
            if re.fullmatch(programs, program) and not re.search(rf"(?:^|\s)(?:{harmless})", arguments):
                return FullScreen(program, instead)
    return None
