"""The tools and their arguments under the names that other agents give them, such as `Bash` or `file_path`."""

import re
import shlex
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json

EDIT = ("edit_file", "apply_patch")
"""Tools that edit files; the model determines which of them exist."""
_OF_AGENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("bash", "shell", "runshellcommand", "execute", "terminal", "execcommand"), ("shell",)),
    **dict.fromkeys(("executecommand", "localshell", "runinterminal", "runterminalcmd"), ("shell",)),
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
    "exitplanmode": ("finish",),
    **dict.fromkeys(("skill", "activateskill"), ("skill", "find_skills")),
    **dict.fromkeys(("savememory", "memory"), ("memory",)),
}
"""Our tools by other names in lower case, without `_` and `-`."""
_USUAL: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("cmd", "exec", "command", "runcommand", "executebash", "python"), ("shell",)),
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

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("filepath", "filename", "absolutepath", "targetfile", "notebookpath"), ("path",)),
    **dict.fromkeys(("dirpath", "dir", "directory", "folder", "targetdirectory", "searchpath"), ("path",)),
    **dict.fromkeys(("oldstring", "oldstr", "oldtext"), ("old",)),
    **dict.fromkeys(("newstring", "newstr", "newtext"), ("new",)),
    "allowmultiple": ("replace_all",),
    **dict.fromkeys(("contents", "filetext", "filecontent"), ("content",)),
    **dict.fromkeys(("cmd", "script"), ("command",)),
    **dict.fromkeys(("runinbackground", "isbackground"), ("background",)),
    **dict.fromkeys(("regex", "regexp", "query", "searchpattern", "globpattern"), ("pattern",)),
    **dict.fromkeys(("include", "includepattern", "filepattern"), ("glob",)),
    **dict.fromkeys(("headlimit", "maxresults"), ("limit",)),
    "i": ("ignore_case",),
    "c": ("context",),
    **dict.fromkeys(("input", "patchtext", "diff"), ("patch",)),
    "todos": ("items",),
    "plan": ("items", "summary"),
    **dict.fromkeys(("content", "step"), ("text",)),
    **dict.fromkeys(("skill", "skillname"), ("name",)),
    **dict.fromkeys(("bashid", "shellid", "taskid", "jobid"), ("job",)),
    "args": ("arguments",),
    "prompt": ("task",),
    **dict.fromkeys(("subagenttype", "agenttype"), ("type",)),
}
"""Our arguments by other names, written like the tools' names. Meaning and unit are the same under both."""
_WORDS: Mapping[str, str] = {
    "completed": "done", "kill": "stop", "add": "append", **dict.fromkeys(("wait", "poll", "output"), "read"),
}  # fmt: skip
"""Our words by those of other agents, where a parameter takes only certain words."""
_ACTIONS: Mapping[str, str] = {
    **dict.fromkeys(("taskoutput", "bashoutput"), "read"),
    **dict.fromkeys(("taskstop", "killshell", "killbash"), "stop"),
}
"""What other agents' names for `jobs` say that its argument `action` says."""
_FILES_ONLY = {"content": False, "files_with_matches": True}
"""What `output_mode` of a search says that `files_only` can say."""
_CONVERTED = frozenset({"timeout", "timeoutms", "startline", "endline", "viewrange", "outputmode"})
"""Arguments that ours say in another unit or form."""
_LEAST_MS = 1000
"""Smallest `timeout` that is read as milliseconds: other agents count it in either unit."""
_REMARKS = frozenset(
    {"description", "explanation", "instruction", "justification", "reason", "activeform", "prompt"}
)
"""Arguments that only explain a call to the reader."""
_ANYWAY = "-n"
"""An argument that asks for what a search does anyway: line numbers."""


def own_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under the names in a schema. What belongs into the items of a list that is missing, such as
    the texts of a single edit, becomes its one item. An argument whose meaning is unknown keeps its name."""
    properties: Mapping[str, Any] = schema["properties"]
    renamed: dict[str, Any] = {}
    arguments = _converted(properties, arguments)
    for key, value in arguments.items():
        named = [name for name in _ARGUMENTS.get(plain_name(key), ()) if name in properties]
        name = key if key in properties or not named or named[0] in arguments else named[0]
        if name in renamed:  # two names for one argument: which of them counts is not ours to say
            return dict(arguments)
        if name in properties or named or (plain_name(key) not in _REMARKS and key != _ANYWAY):
            renamed[name] = _line(value) if name == "command" and isinstance(value, list) else value
    renamed = {name: _fitting(properties.get(name, {}), value) for name, value in renamed.items()}
    for name, part in properties.items():
        item = part.get("items", {})
        if item.get("type") != "object":
            continue
        if isinstance(renamed.get(name), list):
            renamed[name] = [own_arguments(item, it) if isinstance(it, dict) else it for it in renamed[name]]
        elif name not in renamed:
            outside = {key: value for key, value in renamed.items() if key not in properties}
            made = own_arguments(item, outside)
            if made and made.keys() <= item["properties"].keys():
                renamed = {key: value for key, value in renamed.items() if key in properties} | {name: [made]}
    return renamed


def _converted(properties: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments with a time in milliseconds in seconds, and with a first and a last line or the form of a
    result as ours say it."""
    plain = {plain_name(key): value for key, value in arguments.items()}
    changed: dict[str, Any] = {}
    limit = plain.get("timeoutms", plain.get("timeout", ""))
    is_clear = type(limit) in (int, float) and not {"timeout", "timeoutms"} <= plain.keys()
    ours = next((name for name in ("timeout_s", "wait_s") if name in properties), "")
    if ours and is_clear:
        is_ms = "timeoutms" in plain or limit >= _LEAST_MS
        changed[ours] = limit / 1000 if is_ms else limit
    elif "files_only" in properties and plain.get("outputmode") in tuple(_FILES_ONLY):
        changed["files_only"] = _FILES_ONLY[plain["outputmode"]]
    elif "offset" in properties and "limit" in properties:
        changed = _lines(plain)
    if not changed or changed.keys() & arguments.keys():
        return arguments
    return {key: value for key, value in arguments.items() if plain_name(key) not in _CONVERTED} | changed


def _lines(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the offset and the limit for the first and the last line; empty if these are not certain."""
    given = plain.get("viewrange", [plain.get("startline"), plain.get("endline")])
    if ("viewrange" in plain and len(_CONVERTED & plain.keys()) > 1) or not isinstance(given, list):
        return {}
    match [int(each) if isinstance(each, str) and each.isdecimal() else each for each in given]:
        case [int(first), None | -1]:
            return {"offset": first}
        case [None, int(last)]:
            return {"limit": last}
        case [int(first), int(last)] if last >= first:
            return {"offset": first, "limit": last - first + 1}
    return {}


def _fitting(part: Mapping[str, Any], value: Any) -> Any:
    """Return a value in the form that its part of a schema wants, where that is certain: a number as text, an item
    as a list of one, another agent's word as ours."""
    if type(value) is int and part.get("type") == "string":
        return str(value)
    if isinstance(value, dict) and part.get("type") == "array":
        return [value]
    if isinstance(value, str) and value not in part.get("enum", (value,)):
        return _WORDS.get(value, value)
    return value


def _line(argv: list[Any]) -> Any:
    """Return the command line for a list of arguments, as Codex writes commands; other lists as they are."""
    match argv:
        case ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", str() as line]:
            return line
        case [*words] if words and all(isinstance(word, str) for word in words):
            return shlex.join(words)
    return argv


def own_tools(name: str) -> tuple[str, ...]:
    """Return our tools for a name in another agent; empty if it has none."""
    return _OF_AGENTS.get(plain_name(name), ())


def own_call(name: str, arguments: str, existing: Container[str]) -> tuple[str, str]:
    """Return the tool that a call runs, and its arguments as JSON: for another agent's name ours, with the action
    that only the name says. A name that exists, or that is in no table, stays as it is."""
    if name in existing:
        return name, arguments
    own = next((each for each in own_tools(name) if each in existing), name)
    return own, _with_action(name, arguments) if own == "jobs" else arguments


def _with_action(name: str, arguments: str) -> str:
    action = _ACTIONS.get(plain_name(name))
    try:
        given = decode_json(arguments.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        return arguments
    if action is None or not isinstance(given, dict) or "action" in given:
        return arguments
    if given.pop("block", True) is False:
        given.pop("timeout", None)
    return msgspec.json.encode({"action": action} | given).decode()


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
