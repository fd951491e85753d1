"""Describe in one line the worst an action could do, for a user who is about to approve it. If several apply to a
command line, the gravest are given."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from agent_cli.protocol.actions import (
    Action,
    CallExternal,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    StopCommand,
    WriteMemory,
    WritePath,
)
from agent_cli.protocol.paths import is_inside

from .rules.path_verdict import Policy, is_scratch
from .rules.secret_paths import is_secret
from .shell.destructive import INTERPRETERS, written_targets
from .shell.parser import SimpleCommand, Unsure, is_chain, parse
from .shell.readonly_commands import READERS, reading
from .shell.secret_commands import prints_secret
from .shell.wrappers import MAX_SHELLS, SHELLS, all_started_by, plainly_named, program, unwrap

_CODE = "runs code of this project"
_READS = "only reads"
_PACKAGES = "installs packages and runs their scripts"
_SETS = "sets variables"
_SENDS = "sends data to the network, or downloads data"

_BY_PROGRAM: tuple[tuple[str, str, str], ...] = (
    (r"sudo|doas|su|pkexec|runuser", r"", "acts as another user, limited only by that user's rights"),
    (r"dd|mkfs\S*|fdisk|parted|wipefs|shred|sgdisk", r"", "overwrites whole disks or files; that cannot be"
    " undone"),
    (r"shutdown|reboot|halt|poweroff|mount|umount|insmod|modprobe|iptables|nft", r"", "changes this machine"),
    (r"crontab|at|systemctl|launchctl|service", r"", "changes what this machine runs by itself"),
    (r"terraform|tofu|pulumi|kubectl|oc|helm|aws|gcloud|gsutil|az|fly|flyctl|heroku|vercel|netlify|railway|wrangler"
     r"|firebase|supabase|doctl|hcloud|serverless|sls|eksctl|rclone|s3cmd",
     r"", "changes machines or services elsewhere; undo"
    " cannot reach them"),
    (r"npm|pnpm|yarn|cargo|twine|gem|poetry|uv", r"(un)?publish|upload|yank", "publishes; that cannot be undone"),
    (r"git", r"push .*(-f\b|--force|--delete|--mirror| :| \+)", "rewrites or deletes what others see of the"
    " repository"),
    (r"git", r"push", "publishes commits"),
    (r"git", r"reset --hard|clean|checkout (--|\.|-f)|restore|stash (drop|clear)|branch -D|reflog|filter\S*",
     "discards work that is not committed, or history"),
    (r"git", r"config", "changes settings that make git run programs"),
    (r"git", r"clone|fetch|pull|submodule|ls-remote", "downloads code"),
    (r"git", r"commit|merge|rebase|cherry-pick|revert|am", "changes the repository and runs its hooks"),
    (r"git", r"", "changes the repository"),
    (r"docker|podman|nerdctl|docker-compose", r"", "reaches the whole machine through the container service"),
    (r"psql|mysql|mariadb|mongosh|redis-cli|sqlite3|dropdb", r"", "changes or deletes data that undo does not"
    " keep"),
    (r"npm|pnpm|yarn|bun", r"(i|install|ci|add|update|up|upgrade|dlx|create|init)\b", _PACKAGES),
    (r"yarn", r"$", _PACKAGES),
    (r"pip[\d.]*|pipx|conda|mamba|gem|bundle|composer|apt|apt-get|yum|dnf|brew|apk|pacman|uv|poetry|pdm",
     r"(-\S+ )*(install|add|sync|update|upgrade|require|lock|pip (install|sync))\b", _PACKAGES),
    (r"npx|uvx|bunx", r"", "runs a program of a package, which may be fetched first"),
    (r"cargo|go", r"(install|get|add|update|mod)\b", "downloads packages, which run code when they are built"),
    (r"curl|wget|aria2c|http|xh|nc|ncat|socat|scp|sftp|rsync|ftp|gh|glab", r"", _SENDS),
    (r"ssh|mosh", r"", "runs commands on another machine"),
    (r"kill|pkill|killall", r"", "ends running programs; what they had not saved is lost"),
    (r"chmod|chown|chgrp", r"", "changes who may read, write or run files"),
    (r"tar|bsdtar|cpio|unzip|7z|gunzip|unxz|bunzip2|zip|gzip|xz|bzip2|zstd", r"", "overwrites files, or runs"
    " programs that its options name"),
    (r"export|declare|typeset|alias|unalias|trap|enable|hash|shopt|set|unset|bind|complete", r"", "changes how the"
    " rest of the line runs"),
    (r"make|gmake|cmake|ninja|bazel|gradle|gradlew|mvn|mvnw|ant|sbt|tox|nox|pytest|jest|vitest|mocha|rake|just"
    r"|task|meson|ctest",
     r"", _CODE),
    (r"npm|pnpm|yarn|bun|cargo|go|dotnet|swift|mix|stack|deno|uv|poetry", r"", _CODE),
)  # fmt: skip
"""Program, start of its arguments, meaning; the first match counts."""

_GRAVITY = (
    "not known in advance",
    "acts as",
    "overwrites",
    "changes this machine",
    "deletes",
    "publishes",
    "rewrites",
    "discards",
    "reaches",
    "changes machines",
    "sends",
    "shows",
    "installs packages",
)


_MOST_PLACES = 8
"""Number of directories considered, if it is not certain where a command runs."""


def risk(action: Action, policy: Policy, *, is_confined: bool = False) -> str:
    """Return the worst the action could do, in one line without a full stop. `is_confined`: a command runs in the
    sandbox, with temporary files of its own."""
    match action:
        case ReadPath(path=path, shown=shown):
            secret = ", and it usually holds secrets" if is_secret(path) else ""
            return f"shows {shown} to the model's provider{secret}"
        case WritePath(path=path, shown=shown):
            restores = "undo restores it" if is_inside(path, policy.roots) else "undo does not restore that"
            return f"changes {shown}; {restores}"
        case RunCommand(command=command, cwd=cwd):
            return _of_line(command, _Place(cwd, cwd, policy, is_confined), 0)
        case SendInput(command=command):
            return f"does whatever `{command}` does with this input"
        case StopCommand(command=command):
            return f"ends `{command}`; what it had not saved is lost"
        case Fetch(url=url, host=host):
            query = "; the address itself carries data there" if urlsplit(url).query else ""
            return f"contacts {host}, and shows its answer to the model{query}"
        case WriteMemory(block=block):
            return f"changes what later requests are told ({block}); undo restores it"
        case CallExternal(server=server, tool=tool):
            return f"does whatever {server} does for `{tool}`, with the data of the call"


class _Place(NamedTuple):
    """Where a command runs."""

    folder: str
    start: str
    """Where the line began."""
    policy: Policy
    is_confined: bool

    def entered(self, argv: Sequence[str]) -> "_Place":
        """Return the place after a change of directory.

        Raises:
            Unsure: it cannot be followed.
        """
        name, *words = argv
        if name != "cd" or len(words) > 1 or "".join(words).startswith("-"):
            raise Unsure("a change of directory that cannot be followed")
        return self._replace(folder=self.path("".join(words) or "~"))

    def path(self, word: str) -> str:
        """Return the path of a word; one in the home directory begins with `~`."""
        return os.path.normpath(word if word[:1] == "~" else os.path.join(self.folder, word))

    def is_inside(self, word: str) -> bool:
        """Return True if a word names something in the workspace. Links on the way to it count, but not one that
        it names: deleting that leaves its target alone."""
        named = word if word[:1] == "~" else os.path.join(self.folder, word)
        parent, name = os.path.split(named)
        if not parent or name == "..":
            return is_inside(self.policy.resolve(named, "/"), self.policy.roots)
        return is_inside(os.path.join(self.policy.resolve(parent, "/"), name), self.policy.roots)

    def is_scratch(self, word: str) -> bool:
        """Return True if a word names temporary files of the command's sandbox."""
        return self.is_confined and is_scratch(self.path(word), self.policy)


def _of_line(line: str, place: _Place, depth: int) -> str:
    found = []
    deleted: dict[_Place, list[str]] = {}
    places = outside = [place]  # more than one if a `cd` may have failed
    try:
        if depth > MAX_SHELLS:
            raise Unsure("shells inside shells")
        parts = parse(line)
        is_one_chain = is_chain(parts)
        for before, part in zip((None, *parts), parts, strict=False):
            if before and part.subshell != before.subshell:
                places = outside
            each = unwrap(part)
            last = len(each.commands) - 1
            for here in places:
                for at, command in enumerate(map(plainly_named, each.commands)):
                    if _is_deletion(command):
                        deleted.setdefault(here, []).extend(w for w in command.argv[1:] if w[:1] != "-")
                    else:
                        found.append(_of_command(command, at < last or bool(each.scripts)))
                    found.append(_redirected(command))
                found += [_of_line(script, here, depth + 1) for script in each.scripts]
                found += _of_started(each.commands, here, depth + 1)
            if any(program(command) in ("cd", "pushd", "popd") for command in each.commands):
                entered = [here.entered(part.argv) for here in places]
                is_sure = is_one_chain and part.operator == "&&" and not part.negated and not part.block
                is_sure = is_sure and not (before and before.operator == "|")
                places = list(dict.fromkeys([*entered, *(places if not is_sure else [])]))
                if len(places) > _MOST_PLACES:
                    raise Unsure("several changes of directory that may fail")
                outside = outside if part.subshell else places
    except Unsure as doubt:
        return f"not known in advance ({doubt}): anything this user may do"
    found += [_deletes([*dict.fromkeys(words)], here) for here, words in deleted.items()]
    said = [each for each in dict.fromkeys(found) if each]
    if not said:
        return _READS
    said.sort(key=lambda each: (_gravity(each), _COVERED in each))
    return "; also ".join(said[:2])


def _of_started(commands: Sequence[SimpleCommand], place: _Place, depth: int) -> list[str]:
    """Return what is to be added about what commands such as `uv run` start.

    Raises:
        Unsure: too many words may begin a command.
    """
    started = all_started_by(commands)
    found = [_deletes([], place) if _is_deletion(one) else _of_command(one, False) for one in started.commands]
    found += [_of_line(script, place, depth) for script in started.scripts]
    return [each for each in found if not each.startswith(("runs", _READS))]


def _gravity(risk: str) -> int:
    """Return the place of a risk in a list of several, the gravest first."""
    if risk == _SETS:
        return len(_GRAVITY) + 1
    return next((at for at, begin in enumerate(_GRAVITY) if risk.startswith(begin)), len(_GRAVITY))


def _is_deletion(command: SimpleCommand) -> bool:
    name = program(command)
    return name in ("rm", "rmdir", "unlink", "shred") or (name == "find" and "-delete" in command.argv)


def _redirected(command: SimpleCommand) -> str:
    """Return the risk of redirections; "" if there are none."""
    written = [path for path in command.writes if not path.startswith("/dev/")]
    return f"overwrites or extends {_listed(written)}" if written else ""


def _of_command(command: SimpleCommand, runs_another: bool) -> str:
    """Return the risk of one command; "" if it only reads, or only runs another one."""
    name = program(command)
    is_harmless = name in READERS and READERS[name].globs == "any"
    seen = msgspec.structs.replace(
        command, operator="", has_unseen_words=command.has_unseen_words and not is_harmless
    )
    if reading(seen) is not None or name == ":":
        return ""
    if not name:
        return _SETS
    if prints_secret(command):
        return "shows a secret to the model's provider"
    for programs, begins, meaning in _BY_PROGRAM:
        if re.fullmatch(programs, name) and re.match(begins, " ".join(command.argv[1:]).strip()):
            return f"{meaning}: {' '.join(command.argv)[:60]}" if meaning == _CODE else meaning
    if changed := written_targets(command):
        return f"changes {_listed(changed)}"
    if runs_another:
        return ""
    if name in ("awk", "gawk", "mawk", "nawk"):
        return "runs the program given here"
    if INTERPRETERS.fullmatch(name) or name in SHELLS or name in ("source", ".", "eval") or "/" in command.argv[0]:
        is_text = any(re.match(r"-\w*[ce]|--eval", word) for word in command.argv[1:2])
        return "runs the program given here" if is_text else f"{_CODE}: {' '.join(command.argv)[:60]}"
    if command.assigns:
        return f"runs `{name}` with {_listed(list(command.assigns))} set"
    if name in READERS:
        return f"writes files or runs programs if these words tell `{name}` to"
    return f"runs `{name}`, of which nothing is known"


_COVERED = "undo restores it, but for large ignored folders such as node_modules"


def _deletes(words: list[str], place: _Place) -> str:
    if not words:
        return "deletes whatever it is given"
    away = [word for word in words if not place.is_inside(word)]
    own = [word for word in away if place.is_scratch(word)]
    if gone := [word for word in away if word not in own]:
        shown = gone if place.folder == place.start else [*map(place.path, gone)]
        return f"deletes {_listed(shown)} outside the workspace; undo does not restore that"
    words = [word for word in words if word not in own]
    if not words:
        return f"deletes {_listed(own)}, temporary files of the sandbox"
    return f"deletes {_listed(words)} below {place.folder}; {_COVERED}"


def _listed(words: list[str]) -> str:
    shown = ", ".join(words[:3]) or "files"
    return f"{shown} and {len(words) - 3} more" if len(words) > 3 else shown
