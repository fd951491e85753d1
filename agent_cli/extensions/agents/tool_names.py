"""Convert other agents' tool names, such as `Bash` or `run_shell_command`, to ours."""

import re
from collections.abc import Iterable, Mapping

import msgspec

EDIT = ("edit_file", "apply_patch")
"""Tools that edit files; the model determines which of them exist."""
_TOOLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("bash", "shell", "runshellcommand", "execute", "terminal"), ("shell",)),
    **dict.fromkeys(("read", "readfile", "readmanyfiles", "notebookread", "view"), ("read_file",)),
    **dict.fromkeys(("edit", "multiedit", "editfile", "applypatch", "patch", "replace", "notebookedit"), EDIT),
    **dict.fromkeys(("write", "writefile"), ("write_file",)),
    **dict.fromkeys(("grep", "grepsearch", "searchfilecontent"), ("grep",)),
    "glob": ("glob",),
    **dict.fromkeys(("ls", "list", "listdir", "listdirectory"), ("list_dir",)),
    "webfetch": ("web_fetch",),
    **dict.fromkeys(("websearch", "googlewebsearch"), ("web_search",)),
    **dict.fromkeys(("todowrite", "todoread", "writetodos", "updateplan"), ("update_plan",)),
    **dict.fromkeys(("task", "agent", "invokeagent", "spawnagent"), ("agent", "agents")),
    **dict.fromkeys(("askuserquestion", "askuser", "question"), ("ask_user",)),
    **dict.fromkeys(("taskoutput", "bashoutput", "taskstop", "killshell", "killbash", "jobs"), ("jobs",)),
    **dict.fromkeys(("skill", "activateskill"), ("skill", "find_skills")),
    **dict.fromkeys(("savememory", "memory"), ("memory",)),
}
"""Our tools by other names in lower case, without `_` and `-`."""
_NOT_HERE = frozenset({"exitplanmode", "enterplanmode", "lsp", "slashcommand", "sendmessage", "codesearch"})
_FORM = re.compile(r"([^\s(]+)\s*(\(.*\))?", re.DOTALL)
_ALL = ("*", "all")


class ToolNames(msgspec.Struct, frozen=True):
    """Tool names converted to ours."""

    names: tuple[str, ...]
    has_all: bool
    """True if all tools are meant."""
    patterns: tuple[str, ...]
    """Entries with a pattern in brackets, as written; not included in `names`."""
    notes: tuple[str, ...]


def tool_names(written: Iterable[str]) -> ToolNames:
    """Convert a list of names. An unknown name is kept, since a plug-in may provide the tool."""
    names: dict[str, None] = {}
    patterns, notes = [], []
    has_all = False
    for entry in written:
        found = _FORM.fullmatch(entry.strip())
        if found is None:
            notes.append(f"{entry!r} names no tool")
            continue
        name = found[1]
        if found[2]:
            patterns.append(entry.strip())
        has_all = has_all or name.lower() in _ALL
        if _plain(name) in _NOT_HERE:
            notes.append(f"there is no tool {name} here")
        elif name.lower() not in _ALL:
            names.update(dict.fromkeys(own_names(name)))
    return ToolNames(tuple(names), has_all, tuple(patterns), tuple(notes))


def own_names(name: str) -> tuple[str, ...]:
    """Return our tools for a name; wildcards and unknown names are kept."""
    if name.startswith("mcp__"):
        return (name if "__" in name[5:] or name.endswith("*") else f"{name}__*",)
    if name.startswith("mcp_"):  # form of Gemini CLI
        server, _, tool = name[4:].partition("_")
        return (f"mcp__{server}__{tool}" if tool else f"mcp__{server}" + ("" if server == "*" else "__*"),)
    return _TOOLS.get(_plain(name), (name,))


def _plain(name: str) -> str:
    return re.sub(r"[_-]", "", name).lower()
