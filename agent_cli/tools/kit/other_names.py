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
    "shellcommand": ("shell",),
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
    "relativeworkspacepath": ("path",),
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
    "namesonly": ("files_only",),
    **dict.fromkeys(("input", "patchtext", "diff"), ("patch",)),
    "todos": ("items",),
    "plan": ("items", "summary"),
    **dict.fromkeys(("content", "step"), ("text",)),
    **dict.fromkeys(("skill", "skillname"), ("name",)),
    **dict.fromkeys(("bashid", "shellid", "taskid", "jobid", "id"), ("job",)),
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
_SEARCH_FORMS = frozenset({"outputmode", "type", "casesensitive", "a", "b", "c"})
"""Arguments that say the form of a search."""
_TYPES: Mapping[str, str] = {
    "py": "*.{py,pyi}",
    "js": "*.{js,jsx,cjs,mjs,vue}",
    "ts": "*.{ts,tsx,cts,mts}",
    "c": "*.{c,h}",
    "rust": "*.rs",
    "yaml": "*.{yaml,yml}",
    **{name: f"*.{name}" for name in ("go", "java", "css", "json", "toml", "swift", "sql")},
}
"""What `type` of a search says that `glob` can say: ripgrep's names for kinds of files."""
_LEAST_MS = 1000
"""Smallest `timeout` that is read as milliseconds: other agents count it in either unit."""
_REMARKS = frozenset(
    "description explanation instruction justification reason goal activeform prompt requiresapproval".split()
)
"""Arguments that only explain a call to the reader."""
_ANYWAY: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("timeout", "headlimit", "offset"), (0,)),
    **dict.fromkeys(("multiline", "merge", "restart", "dangerouslydisablesandbox"), (False,)),
    **dict.fromkeys(("isregexp", "respectgitignore", "shouldreadentirefile", "login"), (True,)),
    "n": (True, False),
    "withescalatedpermissions": (False,),
    "sandboxpermissions": ("use_default",),
    "expectedreplacements": (1,),
}
"""Values with which an argument of another agent asks for what ours does anyway: no limit, line numbers."""
_WORKDIRS = frozenset({"workdir", "cwd", "dirpath", "directory"})
"""Arguments for the folder of a single command."""
_NOT_AFTER_CD = re.compile(r"[;\n#]|\|\||(?<![&>])&(?![&>])|\\$")
"""What a command line has that is more than commands joined by `&&` and `|`, so that `cd` cannot begin it."""


def own_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under the names in a schema. What belongs into the items of a list that is missing, such as
    the texts of a single edit, becomes its one item; what is said beside a list, such as `replace_all`, counts for
    each item that does not say otherwise. An argument whose meaning is unknown keeps its name."""
    properties: Mapping[str, Any] = schema["properties"]
    renamed: dict[str, Any] = {}
    arguments = _converted(properties, arguments)
    own = {plain_name(name): (name,) for name in properties}
    for key, value in arguments.items():
        plain = plain_name(key)
        named = [name for name in own.get(plain) or _ARGUMENTS.get(plain, ()) if name in properties]
        name = key if key in properties or not named or named[0] in arguments else named[0]
        if name in renamed:  # two names for one argument: which of them counts is not ours to say
            return dict(arguments)
        if name in properties or named or plain not in _REMARKS:
            renamed[name] = _line(value) if name == "command" and isinstance(value, list) else value
    renamed = {name: _fitting(properties.get(name, {}), value) for name, value in renamed.items()}
    renamed = _in_folder(renamed) if "command" in properties else renamed
    for name, part in properties.items():
        item = part.get("items", {})
        if item.get("type") != "object":
            continue
        if isinstance(renamed.get(name), list):
            common = _common(item, {key: value for key, value in renamed.items() if key not in properties})
            renamed = {key: value for key, value in renamed.items() if key in properties} if common else renamed
            renamed[name] = [
                common | own_arguments(item, each) if isinstance(each, dict) else each for each in renamed[name]
            ]
        elif name not in renamed:
            outside = {key: value for key, value in renamed.items() if key not in properties}
            made = own_arguments(item, outside)
            if made and made.keys() <= item["properties"].keys():
                renamed = {key: value for key, value in renamed.items() if key in properties} | {name: [made]}
    return renamed


def _common(item: Mapping[str, Any], outside: dict[str, Any]) -> dict[str, Any]:
    """Return what arguments beside a list say of each item, such as `replace_all`; empty if they do not."""
    common = own_arguments(item, outside)
    return common if common.keys() <= item["properties"].keys() - set(item.get("required", ())) else {}


def _converted(properties: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments as ours say them: without those that ask for what happens anyway, with milliseconds
    as seconds, and with a range of lines, the form of a search or a list of one question in our words."""
    arguments = {key: value for key, value in arguments.items() if value not in _ANYWAY.get(plain_name(key), ())}
    plain = {plain_name(key): value for key, value in arguments.items()}
    if "files_only" in properties:
        changed = _search(plain)
    elif "timeout_s" in properties or "wait_s" in properties:
        changed = _time(plain, "timeout_s" if "timeout_s" in properties else "wait_s")
    elif "offset" in properties and "limit" in properties:
        changed = _lines(plain)
    elif "question" in properties:
        changed = _question(plain.get("questions"))
    else:
        changed = {}
    if not changed or changed.keys() & arguments.keys():
        return arguments
    replaced = {"timeout", "timeoutms", "startline", "endline", "viewrange", "questions", *_SEARCH_FORMS}
    return {key: value for key, value in arguments.items() if plain_name(key) not in replaced} | changed


def _time(plain: Mapping[str, Any], ours: str) -> dict[str, Any]:
    limit = plain.get("timeoutms", plain.get("timeout"))
    if type(limit) not in (int, float) or {"timeout", "timeoutms"} <= plain.keys():
        return {}
    return {ours: limit / 1000 if "timeoutms" in plain or limit >= _LEAST_MS else limit}


def _search(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the form of a search is in ours; empty if a part of it has no equivalent."""
    changed: dict[str, Any] = {}
    for key in _SEARCH_FORMS & plain.keys():
        match key, plain[key]:
            case "outputmode", "content" | "files_with_matches" as form:
                changed["files_only"] = form != "content"
            case "type", str() as kind if kind in _TYPES:
                changed["glob"] = _TYPES[kind]
            case "casesensitive", bool() as exact:
                changed["ignore_case"] = not exact
            case "a" | "b" | "c", int() as lines:
                changed["context"] = max(lines, changed.get("context", 0))
            case _:
                return {}
    return changed


def _question(questions: Any) -> dict[str, Any]:
    """Return the one question of a list, with its options; empty for anything else."""
    match questions:
        case [{"question": str() as question, **rest}]:
            return {"question": question, "options": rest.get("options", [])}
    return {}


def _in_folder(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with a command that changes to its folder, where the form of the line allows that."""
    folders = [key for key in arguments if plain_name(key) in _WORKDIRS]
    match [arguments.get("command"), *(arguments[key] for key in folders)]:
        case [str() as command, "" | "."]:
            pass
        case [str() as line, str() as folder] if not _NOT_AFTER_CD.search(line):
            command = f"(cd {shlex.quote(folder)} && {line})"
        case _:
            return arguments
    return {key: value for key, value in arguments.items() if key not in folders} | {"command": command}


def _lines(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the offset and the limit for the first and the last line; empty if these are not certain."""
    given = plain.get("viewrange", [plain.get("startline"), plain.get("endline")])
    if ("viewrange" in plain and {"startline", "endline"} & plain.keys()) or not isinstance(given, list):
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
    if isinstance(value, list) and part.get("items", {}).get("type") == "string":
        return [_label(item) for item in value]
    if isinstance(value, str) and value not in part.get("enum", (value,)):
        return _WORDS.get(value, value)
    return value


def _label(option: Any) -> Any:
    """Return the text for an option with a label and a description; others as they are."""
    match option:
        case {"label": str() as label, "description": str() as description} if description:
            return f"{label}: {description}"
        case {"label": str() as label}:
            return label
    return option


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
