"""The tools under the names that other agents give them, such as `Bash` or `run_shell_command`."""

import re
from collections.abc import Iterable, Mapping

EDIT = ("edit_file", "apply_patch")
"""Tools that edit files; the model determines which of them exist."""
_OF_AGENTS: Mapping[str, tuple[str, ...]] = {
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
_USUAL: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("cmd", "exec", "command", "runcommand", "executecommand", "executebash"), ("shell",)),
    **dict.fromkeys(("execcommand", "localshell", "runinterminal", "runterminalcmd", "python"), ("shell",)),
    **dict.fromkeys(("cat", "open", "openfile", "viewfile", "viewimage"), ("read_file",)),
    **dict.fromkeys(("strreplace", "strreplaceeditor", "strreplacebasededittool", "searchreplace"), EDIT),
    **dict.fromkeys(("replaceinfile", "replacestringinfile", "inserteditintofile", "update", "diff"), EDIT),
    **dict.fromkeys(("create", "createfile", "writetofile", "savefile"), ("write_file",)),
    **dict.fromkeys(("search", "searchfiles", "codebasesearch", "searchcode", "rg", "ripgrep"), ("grep",)),
    **dict.fromkeys(("find", "findfiles", "filesearch"), ("glob",)),
    **dict.fromkeys(("listfiles", "dir", "tree"), ("list_dir",)),
    **dict.fromkeys(("fetch", "fetchurl", "fetchwebpage", "browse", "openurl"), ("web_fetch",)),
    **dict.fromkeys(("plan", "todo", "managetodolist"), ("update_plan",)),
    **dict.fromkeys(("ask", "askfollowupquestion"), ("ask_user",)),
    **dict.fromkeys(("attemptcompletion", "complete", "done", "submit"), ("finish",)),
    **dict.fromkeys(("writestdin", "commandstatus"), ("jobs",)),
}
"""Further names that models use for such tools; in a definition they may mean the tool of a plug-in."""


def own_tools(name: str) -> tuple[str, ...]:
    """Return our tools for a name in another agent; empty if it has none."""
    return _OF_AGENTS.get(plain_name(name), ())


def meant_tools(name: str, existing: Iterable[str]) -> list[str]:
    """Return which tools a model may mean by a name that none has: those of this kind, else of similar names."""
    known = list(existing)
    of_kind = own_tools(name) or _USUAL.get(plain_name(name), ())
    if found := [each for each in of_kind if each in known]:
        return found
    import difflib

    return difflib.get_close_matches(name, known, n=3, cutoff=0.5)


def plain_name(name: str) -> str:
    """Return a name as the tables have it."""
    return re.sub(r"[_-]", "", name).lower()
