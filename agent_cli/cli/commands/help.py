"""`agent help`: the pages of `docs/` in the terminal, and the help of each command.

The pages are the files published on the web: in a wheel they are beside the package, in a checkout in the
repository.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from agent_cli.bootstrap.options import COMMANDS, TABLES, UsageError
from agent_cli.config.schema import Ui

_HERE = Path(__file__).resolve().parents[2]
_FOLDERS = (_HERE / "docs", _HERE.parent / "docs")
TOPICS: dict[str, str] = {
    "getting-started": "install, choose a model, first task",
    "terminal": "keys, steering, approvals, notifications, themes, plain mode, copying",
    "appearance": "how the screen is designed: roles, colours, themes",
    "commands": "slash commands, and custom ones",
    "permissions": "allow, ask and deny: modes and rules",
    "security": "sandbox, secrets, untrusted text, known limits",
    "sessions": "find, resume, fork, undo, export, retention",
    "memory": "AGENTS.md, memory, @ mentions",
    "tools": "what the model can do, and custom tools",
    "mcp": "MCP servers: add, trust, permissions, many tools; serve as one",
    "agents": "conversations for single tasks: defining them, what is read of other products, trust",
    "worktrees": "work apart from the checkout: -w, merging, cleaning, .worktreeinclude",
    "skills": "instructions for tasks: where they are looked for, calling them, trust",
    "hooks": "programs of yours that are asked before calls and told of results",
    "plugins": "plug-ins of Claude Code, Codex and Gemini CLI: add, trust, update",
    "configuration": "every key, and precedence",
    "providers": "models, keys, local servers, prices, errors and retries",
    "headless": "scripts and CI: non-interactive runs, exit codes, JSON",
    "sdk": "the agent as a Python library: results, events, approvals, tools",
    "serve": "sessions for other programs: JSON-RPC on standard streams or a unix socket",
    "editors": "the agent in Zed, JetBrains, Neovim and Emacs",
    "review": "review a change: targets, checks, formats, GitHub Action",
    "batch": "many tasks in one command: task files, results, budget, trees",
    "evaluation": "suites, scores with intervals, comparisons, SWE-bench, Harbor",
    "cluster": "batches on many machines: Dask, TLS, failures",
    "stats": "where time, money and context went: all sessions, one session, one turn; logs",
    "traces": "the timing and cost of a session in other programs: files, Perfetto, OpenTelemetry",
    "events": "every event of `--output-format stream-json`",
    "architecture": "how the program is built",
    "tour": "the code, followed from a typed prompt and from an approved command",
}
"""Subject of each page, in reading order."""
_WIDEST = 100
_NO_PAGER = ("", "cat")


def topics(incomplete: str) -> list[str]:
    """Return the pages and commands with this prefix, for shell completion."""
    return [name for name in dict.fromkeys((*_pages(), *sorted(COMMANDS))) if name.startswith(incomplete)]


def help_command(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", help="A page or a command; the beginning is enough.", autocompletion=topics
        ),
    ] = None,
) -> int:
    """Show a help topic, or list the topics."""
    words = topic or []
    pages = _pages()
    name = "-".join(words).lower()
    if not words:
        print("\n".join(_contents(pages)))
    elif page := _found(name, pages):
        _show(pages[page].read_text(encoding="utf-8"))
    elif words[0].lower() in (*COMMANDS, *TABLES):
        return int(context.obj([word.lower() for word in words]))
    else:
        raise UsageError(_unknown(" ".join(words), name, pages))
    return 0


def _pages() -> dict[str, Path]:
    """Return the available pages, in order."""
    folder = next((each for each in _FOLDERS if each.is_dir()), _FOLDERS[0])
    return {name: path for name in TOPICS if (path := folder / f"{name}.md").is_file()}


def _contents(pages: Iterable[str]) -> list[str]:
    width = max((len(page) for page in pages), default=0)
    return [
        "agent help TOPIC    one of these pages",
        "agent help COMMAND  the options of a command; `agent --help` lists the commands",
        "",
        *(f"  {page:<{width}}  {TOPICS[page]}" for page in pages),
    ]


def _found(name: str, pages: Iterable[str]) -> str:
    """Return the page of this name, or the only one with this prefix if it is no command's name; else empty."""
    begun = [page for page in pages if page.startswith(name)]
    if name in begun:
        return name
    return begun[0] if len(begun) == 1 and name not in (*COMMANDS, *TABLES) else ""


def _unknown(words: str, name: str, pages: dict[str, Path]) -> str:
    """Return the error message for an unknown topic with suggestions: pages with this prefix, the nearest name, or
    pages on the subject."""
    import difflib

    near = [page for page in pages if page.startswith(name)]
    near = near or difflib.get_close_matches(name, {*pages, *COMMANDS, *TABLES}, n=1)
    near = near or [page for page, path in pages.items() if _is_about(path, words)]
    meant = " or ".join(f"`agent help {each}`" for each in near[:3])
    return f"there is no help on {words!r}; " + (f"did you mean {meant}?" if near else "`agent help` lists it all")


def _is_about(path: Path, words: str) -> bool:
    """Return True if a heading or bold text of a page contains the words."""
    marked = re.findall(r"(?m)^#+ (.+)$|\*\*([^*]+)\*\*", path.read_text(encoding="utf-8"))
    wanted = re.compile(rf"\b{re.escape(words)}\b", re.IGNORECASE)
    return any(wanted.search(" ".join(each)) for each in marked)


def _show(text: str) -> None:
    """Print a page: as Markdown if the output is not a terminal; else rendered, and paged if it is long."""
    from agent_cli.ui.text.theme import choose, is_plain

    if is_plain(Ui(), sys.stdin, sys.stdout):
        print(text, end="")
        return
    from agent_cli.ui.markdown.blocks import StyledBlocks

    size = shutil.get_terminal_size()
    theme = choose(Ui(links="off"))  # a pager may not support links
    lines = StyledBlocks(theme).block(_for_here(text), min(size.columns, _WIDEST), None)
    if len(lines) < size.lines or os.environ.get("PAGER") in _NO_PAGER:
        print("\n".join(lines))
    else:
        _page("\n".join(lines) + "\n")


def _for_here(text: str) -> str:
    """Replace links to other pages by the commands that show them, and omit images."""
    linked = re.sub(r"(?m)^!\[.*\]\(.*\)\n", "", text)
    link = rf"\[([^]]+)\]\(({'|'.join(TOPICS)})\.md(?:#[\w-]*)?\)"
    return re.sub(link, lambda found: f"{found[1]} (`agent help {found[2]}`)", linked)


def _page(text: str) -> None:
    """Show a text through `$PAGER`, as git does; `less` keeps colours and leaves the text on the screen."""
    from rich.pager import SystemPager

    os.environ.pop("MANPAGER", None)  # for manual pages, but used before PAGER
    os.environ.setdefault("LESS", "FRX")
    SystemPager().show(text)
