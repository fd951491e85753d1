"""Tables of commands that undo cannot revert, or that plant something to run later. They ask in every mode. All
functions expect normalized commands: without wrappers, `/usr/bin/` and git's global options."""

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from agent_cli.protocol.actions import Reach
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from ..rules.globs import globs_meet
from .databases import CLIENTS, DROPS, QUOTE, empties, with_files
from .parser import SimpleCommand, Unsure, Word, parse
from .wrappers import (
    SHELLS,
    all_started_by,
    git_settings,
    leftovers,
    normalize,
    option_values,
    plainly_named,
    program,
    unwrap,
)

HARMLESS = frozenset(f"/dev/{name}" for name in "null zero full random urandom stdin stdout stderr tty".split())

_SYSTEM = r"/|/(?:private/)?(?:etc|usr|bin|sbin|lib\w*|boot|dev|sys|proc|System|Library)(?:/.*)?"
_START_UP = (
    r"/\.(?:bashrc|bash_\w+|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc|inputrc|gitconfig|npmrc|pypirc|vimrc"
    r"|pythonrc\w*|ssh(?:/.*)?|gnupg(?:/.*)?|config/(?:fish|git|autostart|systemd|nvim)(?:/.*)?|local/bin/.*)"
)
_SETTINGS = (
    r"(?:core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|askpass|gitproxy|attributesfile|worktree)|pager\.\S*"
    r"|sequence\.editor|gpg\.\S*|credential\.\S*|url\.\S*|protocol\.\S*|safe\.\S*|include(?:if)?\.\S*"
    r"|init\.templatedir"
    r"|(?:alias|diff|filter|merge|difftool|mergetool|browser|man|web|tar)\.\S+|submodule\.\S*update"
    r"|remote\.\S*\.(?:uploadpack|receivepack|vcs|proxy|mirror|push(?!url))|interactive\.difffilter|imap\.tunnel"
    r"|core\.alternaterefscommand|uploadpack\.packobjectshook|sendemail\.(?:\S*cmd|smtpserver)|lfs\.(?:customtransfer|standalonetransfer|extension)\S*"
    r"|\S*\.(?:textconv|command|driver|clean|smudge|process|cmd|helper|program))"
)
_RUNS_LATER = (
    r"LD_\w+|DYLD_\w+|PATH|GIT_\w+|PYTHON(?:PATH|HOME|STARTUP|BREAKPOINT)|PERL5\w*|RUBY(?:OPT|LIB)"
    r"|NODE_(?:OPTIONS|PATH)|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|\w*EDITOR|VISUAL"
    r"|\w*PAGER|JAVA_TOOL_OPTIONS|CLASSPATH|SHELL|HOME|SSH_\w+"
)

_OF_PROJECTS = r"PYTHONPATH|NODE_PATH|RUBYLIB|PERL5LIB|CLASSPATH"
"""Folders with code of the project. Running the project's tests runs that code anyway, so these ask no more than
the command would; afterwards no table and no rule applies to programs that heed them."""
OF_COMMITS = r"GIT_(?:(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|TERMINAL_PROMPT|OPTIONAL_LOCKS|MERGE_AUTOEDIT)"
_STEERS = rf"(?!(?:{_OF_PROJECTS}|{OF_COMMITS})(?:\+?=|\Z))(?:{_RUNS_LATER})"

_HEEDED = (
    r"\w*(?:PATH|CONFIG\w*|RC|OPTIONS?|OPTS|FLAGS|HOME|HOOKS?|COMMANDS?|EXEC\w*|PRELOAD|LOADER|WRAPPER"
    r"|TOOLCHAIN|STARTUP|INIT\w*|EDITOR|PAGER|VIEWER|BROWSER|SHELL|DIRS?|PLUGINS?)|(?:XDG|PYTHON|PIP|RIPGREP"
    r"|JDK|JAVA|_JAVA|RUSTUP|CARGO|GO|NPM|YARN|COREPACK|LESS|MAN|PERL|RUBY|GEM|BUNDLE|DOCKER|DOTNET|TERMINFO"
    r"|OPENSSL|CURL|WGET|ASDF|MISE|PYENV|NVM|GREP|HG|SVN|LOC|NLS|GCONV|TMP)_?\w*|NODE_(?!ENV$)\w+"
)
"""Variables that tell programs to load, run or read something, and some families of them."""


def changes_what_runs(variable: str) -> bool:
    """Return True if a variable of this name can make harmless programs run others; PATH is handled separately."""
    return variable != "PATH" and re.fullmatch(_RUNS_LATER, variable) is not None


def may_change_what_runs(variable: str) -> bool:
    """Return True if a variable of this name might make read-only programs run others or read other settings."""
    return variable != "PATH" and re.fullmatch(f"(?i:{_HEEDED})|{_RUNS_LATER}", variable) is not None


class Danger(msgspec.Struct, frozen=True):
    """A command that asks: `words` is searched for in its arguments, joined and surrounded by spaces."""

    words: str
    why: str


def _all(names: str, words: str, why: str) -> dict[str, Danger]:
    return dict.fromkeys(names.split(), Danger(words, why))


_ON_A_FORGE = r" (delete|create|publish|merge|upload|archive|transfer) | (-X|--method)[ =]?(DELETE|PUT|PATCH) "
_NO_DRY_RUN = r"^(?!.* --dry-run(=client|=server)? )"
_ADDS = r" \S+ (create|publish|merge|upload) | push "
"""What changes something elsewhere and loses nothing."""
_LATER = "changes what later commands run"
DANGERS: dict[str, Danger] = {
    **_all("sudo doas su pkexec runuser run0", "", "acts as another user"),
    **_all(
        "fdisk parted wipefs shred shutdown reboot halt poweroff swapoff losetup cryptsetup mkswap mkfs sgdisk"
        " blkdiscard lvremove vgremove pvremove mdadm",
        "", "works on disks or the machine itself",
    ),
    "dd": Danger(
        r"^(?! (?=.*\bcount=\d)(?:(?:if=/dev/(?:zero|u?random)|of=\w[\w./-]*|(?:bs|count|seek)=\d+\w*"
        r"|(?:status|conv)=\w+) )+$)", "works on disks or fills them",
    ),
    **_all(
        "iptables ip6tables nft ufw umount insmod modprobe rmmod passwd useradd userdel usermod groupadd"
        " groupdel visudo chsh chfn setcap chroot swapon setenforce apparmor_parser update-grub grub-install", "",
        "works on the machine itself",
    ),
    "mount": Danger(r"^(?!(?: -l| -t \S+)* *$)", "works on the machine itself"),
    **_all("pkill killall", r" (-u|-U|--e?uid|-g|--group|-v|\.|\.\*) ", "ends every process"),
    **_all("zfs zpool", " destroy ", "works on disks or the machine itself"),
    "diskutil": Danger(r"(?i) (erase|partition|reformat|delete)", "works on disks or the machine itself"),
    "helm": Danger(rf"{_NO_DRY_RUN}.* (install|upgrade|uninstall|delete|rollback|push) ", "changes a cluster"),
    "ansible-playbook": Danger(
        r"^(?!.* (-C|--check|--syntax-check|--list-\w+|--help|--version) )", "changes machines"
    ),
    "ansible": Danger(
        r"^(?!.* ((-m|--module-name)[ =]?(\w+\.)*(ping|setup|debug|stat)|--list-hosts|--help|--version) )",
        "changes machines",
    ),
    **_all("kill", r" \S.* -1 | -- -1 |(?<! -s)(?<! -n) 1 ", "ends every process"),
    "agent": Danger(
        r" config (set|edit|init) | mcp (add|remove|trust|login|logout) "
        r"| plugin (add|enable|disable|update|remove) ", "changes its own configuration"
    ),
    "crontab": Danger(r"^(?! -l $)", "changes what runs by itself"),
    **_all("at batch launchctl systemd-run", "", "changes what runs by itself"),
    **_all(
        "systemctl service", r"^(?! (\S+ )*(status|show(-environment)?|cat|list-\S+|is-\S+)( |$))",
        "changes services",
    ),
    "history": Danger(" -", "changes the history of the shell"),
    **_all(
        "docker podman nerdctl",
        r" --privileged| (-[a-z]*v|--volume)[ =]?/| --mount \S*(src|source)=/| --(pid|net|network|ipc|userns)"
        r"[ =]host|docker\.sock| --cap-add| --device| (prune|push) | (volume|stack|service) rm | system reset "
        r"| (down|rm) (.* )?(-[a-z]*v|--volumes)",
        "reaches the whole machine, or removes or publishes what undo does not keep",
    ),
    **_all(
        "npm pnpm yarn bun cargo twine gem poetry uv flit hatch pdm lerna vsce",
        r"^( \S+)? (publish|unpublish|deprecate|upload|yank|push|uninstall-release)( |$)", "publishes",
    ),
    "gh": Danger(rf"{_ON_A_FORGE}| secret set ", "changes what is on GitHub"),
    **_all("glab hub tea", _ON_A_FORGE, "changes what is on the server"),
    **_all(
        "terraform tofu pulumi cdk terragrunt", r" (destroy|apply|up|deploy|import|(state|stack) rm"
        r"|state (push|delete)|force-unlock|workspace delete) ", "changes machines",
    ),
    **_all(
        "kubectl oc", rf"{_NO_DRY_RUN}.* (delete|drain|replace|apply|scale|patch|exec|edit|cordon|taint"
        r"|rollout (undo|restart)|set (image|env|resources|selector)) ", "changes a cluster",
    ),
    **_all(
        "aws gcloud az gsutil", r" (rm|rb|delete\S*|terminate\S*|remove\S*|purge\S*|--delete\S*)"
        r" | rsync (.* )?-\w*d\w* ", "deletes in the cloud",
    ),
    **_all(
        "fly flyctl heroku vercel netlify railway wrangler firebase supabase doctl linode-cli hcloud eksctl sam"
        " serverless sls vagrant multipass virsh lxc incus minikube kind k3d colima bq mc s3cmd b2 rclone",
        r" (\S+:)?(delete|del|destroy|remove|rm|rb|purge|undefine)([:-]\S*)? ",
        "deletes machines, services or their data",
    ),
    **_all("etcdctl consul vault influx", " (del|delete|destroy|disable) ", "drops data"),
    **_all("rabbitmqctl", r" (force_)?(reset|delete_\w+|purge_queue) ", "drops data"),
    **_all("kafka-topics kafka-topics.sh", " --delete ", "drops data"),
    "migrate": Danger(r" -(path|source|database)\b.* (drop|down) (?!\d)", "drops data"),
    **_all("dropdb dropuser", "", "drops data"),
    **_all("docker-compose podman-compose", r" (down|rm) (.* )?(-[a-z]*v|--volumes)", "removes volumes"),
    **_all("chown chgrp", r" -\w*R| --r", "changes the owner of a whole tree"),
    "chmod": Danger(r" [ugoa]*[+=][rwxXt]*s| 0*[2467]\d{3} ", "lets a program run as another user"),
    "rsync": Danger(r" --(del|remove)", "deletes files"),
    "find": Danger(r" -(delete|fprint\w*|fls) ", "deletes or overwrites what it finds"),
    **_all("export declare typeset readonly", rf" {_STEERS}=", _LATER),
    **_all("alias enable", r" \S", _LATER),
    "direnv": Danger(r"^ (allow|permit|grant|edit) ", _LATER),
    "mise": Danger(r"^ trust ", _LATER),
    "trap": Danger(r"^(?! (?:-[lp]+ |- | )(?:[A-Z0-9+-]+ )*$)", _LATER),
    "hash": Danger(" -[a-z]*p", _LATER),
}  # fmt: skip
DISCARDS: dict[str, str] = {
    "reset": r" --(h|m|k)",
    "clean": r" (-\w*f|--f)",
    "checkout": r" (-\w*f\w*|--f\S*|\.|--|:\S*|--pathspec\S*) ",
    "restore": r"^(?!.* (--st\S*|-S) )| (--w|-\w*W)",
    "switch": r" (-\w*[fC]|--f|--d\w*-)",
    "stash": r"^ (drop|clear) ",
    "filter-branch": "",
    "rm": r"^(?!(?!.* (-\w*f|--f)).* --cached ).* (\.|\*|\./|:/|/) ",
    **dict.fromkeys(["fetch", "pull", "ls-remote"], r" ext::"),
    "clone": r" (-u|-c)| --(upload-p|config|template)| ext::",
    "push": r" ext::| (-\w*[fd]|--forc|--mir|--del|--pru|\+\S|:\S)",
    "branch": r" -\w*D|^(?=.* (-\w*d|--de))(?=.* (-\w*f|--f))",
    "filter-repo": "",
    "update-ref": "",
    "gc": r" --prune",
    "prune": "",
    "worktree": r"^ remove .*(-f|--f)",
    "submodule": r"^ deinit .*(-f|--f)",
    "reflog": r"^ (expire|delete) ",
    "config": rf"(?i) (?:--)?rename-section |^(?! (?:--(?:global|local|system|worktree) )*(?:--get\S*|--list|-l) )"
    rf".* {_SETTINGS} \S",
}
"""Git verbs and the arguments with which they discard work or plant a program."""

_WRITES: dict[str, str] = {
    **dict.fromkeys("cp install ln rsync scp".split(), "last"),
    **dict.fromkeys(
        "mv tee touch truncate mkdir rmdir rm unlink sed perl ruby patch mkfifo dd shred".split(), "all"
    ),
    **dict.fromkeys("chmod chown chgrp".split(), "rest"),
}
_OUTPUTS = {
    "curl": r"-\w*o|--output",
    "wget": r"-\w*O|--output-document",
    "sort": r"-\w*o|--output",
    **dict.fromkeys("gcc g++ cc c++ clang clang++ rustc".split(), "-o"),
    "xxd": "-r",
    "gpg": "-o",
    "tar": "-C|--directory",
    "unzip": "-d",
}
"""Options with the file or folder that a program writes, in the same word or in the next."""
_VALUED = {"truncate": "-s", "mkdir": "-m", "touch": "-[dtr]"}
"""Options whose value, no file that is written, is the next word."""
_TARGET_DIRECTORY = tuple("--target-directory"[:end] for end in range(3, 19))
"""The option and its abbreviations."""
_REMOVES = frozenset("rm rmdir mv truncate unlink".split())
_TREES = frozenset("chmod chown chgrp".split())
_SPEAKERS = QUOTE | frozenset("npm pnpm yarn apt brew pip docker podman kubectl".split())
"""Programs for which `rm` is an ordinary word."""
_FETCHES = frozenset("curl wget base64 base32 xxd openssl nc ncat socat fetch aria2c gunzip zcat ssh".split())
_OURSELVES = r"(?:-\w*m)?agent_cli(?:\.\w+)?|\S*/agent(?:_cli)?"
"""This program as an argument of an interpreter: a module, or the path of its script."""


class Cwd(msgspec.Struct, frozen=True):
    """Context of a command: its working directory, and the folders it may change."""

    resolve: Callable[[str], str]
    roots: tuple[str, ...]
    home: str
    scratch: tuple[str, ...] = ()
    """Private folders that vanish with the command, such as the `/tmp` of a sandbox."""
    read: Callable[[str], str] = lambda path: ""
    """Returns the text of a small file; empty if there is none."""
    temporary: tuple[str, ...] = ()
    """Temporary files and folders that commands of the session have made."""


def destroys(command: SimpleCommand, place: Cwd) -> str:
    """Return why a normalized simple command needs approval in every mode; empty if no reason is known."""
    for name in command.assigns:
        if re.fullmatch(_STEERS, name):
            return f"setting {name} changes what programs run"
    if not command.words:
        return ""
    name, *args = _own_program(normalize(command))
    line = f" {' '.join(args)} "
    danger = DANGERS.get(name.split(".")[0] if name.startswith("mkfs") else name)
    clears = name == "find" and leftovers(command.words[1:])
    if danger is not None and not clears and re.search(danger.words, line):
        return f"`{name}` {danger.why}"
    if why := empties(name, command, place.read):
        return why
    is_removal = name in _REMOVES or (name in _TREES and re.search(r" -\w*R| --r", line))
    return (
        (_discards(command, args) if name == "git" else "")
        or destroys_by_code(command, bool(place.scratch))
        or _hidden(name, command, place)
        or (_removes(name, command, place) if is_removal else "")
        or _writes(command, place)
    )


def loses(command: SimpleCommand, read: Callable[[str], str]) -> bool:
    """Return True if the words of a command say that something is lost for good, whatever its variables stand
    for."""
    try:
        name, *args = normalize(command) or ("",)
    except Unsure:
        return False
    line = f" {' '.join(args)} "
    danger = DANGERS.get(name)
    if danger and danger.why != _LATER and re.search(danger.words, line) and not re.match(_ADDS, line):
        return True
    if name in _REMOVES and command.has_unseen_words:
        return True
    return bool(empties(name, command, read) or (name == "git" and _discards(command, args)))


def _own_program(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command that runs this program through an interpreter in the form `agent …`."""
    at = next((at for at, word in enumerate(words) if re.fullmatch(_OURSELVES, word)), 0)
    return ("agent", *words[at + 1 :]) if at and INTERPRETERS.fullmatch(words[0]) else words


def _hidden(name: str, command: SimpleCommand, place: Cwd) -> str:
    """Return why the words after an unknown program need approval in case it runs them: `tool rm -rf ~`."""
    if name in _SPEAKERS or name in _REMOVES:
        return ""
    for at, word in enumerate(command.words[1:], 1):
        if word.text.rsplit("/", 1)[-1] in ("rm", "shred"):
            fed = name in ("fd", "fdfind", "entr") or command.has_unseen_words
            return _removes("rm", SimpleCommand(command.words[at:], has_unseen_words=fed), place)
    return ""


def runs_a_pipe(commands: list[SimpleCommand], read: Callable[[str], str]) -> str:
    """Return why a pipeline needs approval: a shell, an interpreter or a database runs its input. `read` returns
    the text of a small file."""
    if runner := _running(commands, _fetched_by, "chmod", "sudo"):
        return f"`{' '.join(runner.argv)}` would run what was just fetched"
    fetched = piped = told = False
    for command in map(plainly_named, commands):
        name = program(command)
        plain = [word for word in command.argv[1:] if not word.startswith("-") or word == "-"]
        if _only_asks_for_its_version(name, command.argv[1:]):
            plain = ["nothing"]
        if piped and name in SHELLS and (not plain or "-s" in command.argv) and not command.has_unseen_words:
            return f"`{name}` would run whatever comes through the pipe"
        if told and name not in QUOTE and (client := next(filter(CLIENTS.__contains__, command.argv), "")):
            return f"`{client}` drops data"
        if fetched and INTERPRETERS.fullmatch(name) and plain in ([], ["-"]):
            return f"`{name}` would run what was fetched or decoded"
        is_read = command.operator in ("|", "|&")
        in_shell = re.findall(r"[\w-]+", " ".join(command.argv)) if is_read and name in SHELLS else ()
        fetched = fetched or name in _FETCHES or not _FETCHES.isdisjoint(in_shell)
        piped = piped or is_read
        said = " ".join((*command.argv, *command.reads))
        told = is_read and (told or bool(re.search(DROPS, with_files(said, read))))
    return ""


def _only_asks_for_its_version(name: str, arguments: Sequence[str]) -> bool:
    known = r"--version|--help|-h|-V+" + "|-v" * (name in ("node", "ruby", "perl", "php"))
    return len(arguments) == 1 and re.fullmatch(known, arguments[0]) is not None


def destroys_by_redirection(command: SimpleCommand, place: Cwd) -> str:
    """Return why a redirection of a command needs approval; empty if no reason is known."""
    targets = [target for target in command.writes if target not in HARMLESS]
    return next(filter(None, (protected_target(place.resolve(target), place) for target in targets)), "")


def reach_of(command: SimpleCommand, needed: Reach) -> Reach:
    """Return the reach that a destructive command needs. Git's own data and the shell can be changed in a sandbox,
    and a command that only loses something on the network needs no more than that."""
    words = normalize(command)
    if words and (danger := DANGERS.get(words[0])) and danger.why == _LATER:
        return needed
    if words[:1] == ("git",) and words[1:2] != ("config",) and not git_settings(command) and not command.assigns:
        return needed
    return needed if needed == "network" and words[:1] != ("rsync",) else "outside"


def protected_target(path: str, place: Cwd) -> str:
    """Return why a file outside the workspace must not be written without approval."""
    if path in HARMLESS or path.startswith("/dev/fd/") or is_inside(path, (*place.roots, *place.scratch)):
        return ""
    if re.fullmatch(_SYSTEM, path):
        return f"{path} belongs to the system"
    if path.startswith(place.home) and re.fullmatch(_START_UP, path[len(place.home.rstrip("/")) :]):
        return f"{path} is read whenever a shell or a tool starts"
    return ""


def _discards(command: SimpleCommand, args: list[str]) -> str:
    if any(re.match(rf"(?i){_SETTINGS}", setting) for setting in git_settings(command)):
        return "`git -c` sets a program to be run, or what is pushed"
    discards = DISCARDS.get(args[0]) if args else None
    if discards is not None and re.search(discards, f" {' '.join(args[1:])} "):
        if args[0] == "config":
            return "`git config` sets a program to be run, or what is pushed"
        return f"`git {args[0]}` may discard uncommitted work or rewrite history"
    return ""


def operands(command: SimpleCommand) -> list[Word]:
    """Return the words of a command that are neither options nor their values; all of them after `--`."""
    ended = False
    found = []
    valued = _VALUED.get(program(command), "(?!)")
    words = iter(command.words[1:])
    for word in words:
        if not ended and word.text == "--":
            ended = True
        elif not ended and re.fullmatch(valued, word.text):
            next(words, None)
        elif ended or not word.text.startswith("-"):
            found.append(word)
    return found


def _removes(name: str, command: SimpleCommand, place: Cwd) -> str:
    if command.has_unseen_words:
        return f"`{name}` gets its files from another program"
    targets = operands(command)
    if name in _TREES or (name == "mv" and len(targets) > 1):
        targets = targets[1:] if name in _TREES else targets[:-1]
    for target in targets:
        real = place.resolve(target.text)
        if real in (*place.roots, place.home, "/") or (target.glob and _covers_a_root(real, place)):
            return f"`{name} {target.text}` concerns a whole workspace, home or root"
        if ".git" in real.split("/") or (target.glob and globs_meet(real, "**/.git")):
            return f"`{name} {target.text}` concerns git's own data"
        if not is_inside(real, (*place.roots, *place.scratch, *place.temporary)):
            return f"`{name} {target.text}` is outside the workspace"
    return ""


def _covers_a_root(path: str, place: Cwd) -> bool:
    """Return True if a pattern matches everything in a workspace, such as `*`, `.*` or `*/*`."""
    return any(
        path.startswith(root.rstrip("/") + "/") and re.fullmatch(r"[*?.!/]+", path[len(root.rstrip("/")) + 1 :])
        for root in (*place.roots, place.home)
    )


def _writes(command: SimpleCommand, place: Cwd) -> str:
    for target in written_targets(command):
        if why := protected_target(place.resolve(target), place):
            return why
    return ""


def written_targets(command: SimpleCommand) -> list[str]:
    """Return the files that a program of the tables changes, as written, without redirections and devices."""
    return [target for target in _written_words(command) if target and target not in HARMLESS]


def _written_words(command: SimpleCommand) -> list[str]:
    name = program(command)
    which = _WRITES.get(name)
    if which is None:
        argv = command.argv
        names = _OUTPUTS.get(name, "(?!)")
        words = [found[1] for word in argv if (found := re.fullmatch(rf"(?:{names})=?(.+)", word))]
        words += [value for flag, value in zip(argv, argv[1:], strict=False) if re.fullmatch(names, flag)]
        return [word for word in words if word != "-"]  # standard output
    targets = [word.text for word in operands(command)]
    if which == "last":
        targets = targets[-1:]
    elif which == "rest":
        targets = targets[1:]
    if which == "last" or name == "mv":
        targets += option_values(command.argv, "-t", *_TARGET_DIRECTORY)
    if name in ("sed", "perl", "ruby"):
        is_in_place = any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in command.argv)
        targets = (targets if "-e" in command.argv or name != "sed" else targets[1:]) if is_in_place else []
    if name == "dd":
        targets = [word.removeprefix("of=") for word in targets if word.startswith("of=")]
    return targets


_VERBS = ("reset", "checkout", "restore", "switch", "stash", "clean", "read-tree", "rm")


_UNREAD = lazy_regex(rf"\bgit\b.*\b(?:{'|'.join(_VERBS)})\b", re.DOTALL)


def discards_git_state(line: str) -> bool:
    """Return True if a line may discard staged or stashed work. A line that cannot be parsed, or that has code, is
    judged by its words."""
    try:
        inside = [unwrap(part) for part in parse(line)]
        inside.append(all_started_by(command for each in inside for command in each.commands))
        commands = [command for each in inside for command in each.commands]
        has_code = any(each.scripts for each in inside) or any(_is_given_code(command) for command in commands)
        return any(_forgets(normalize(each)) for each in commands) or (has_code and bool(_UNREAD.search(line)))
    except Unsure:
        return _UNREAD.search(line) is not None


def _is_given_code(command: SimpleCommand) -> bool:
    name = program(command)
    return (name in SHELLS or bool(INTERPRETERS.fullmatch(name))) and any(" " in word for word in command.argv)


def _forgets(words: tuple[str, ...]) -> bool:
    if words[:1] != ("git",) or len(words) < 2 or words[1] not in _VERBS:
        return False
    pattern = DISCARDS.get(words[1])
    return pattern is None or re.search(pattern, f" {' '.join(words[2:])} ") is not None


INTERPRETERS = lazy_regex(
    r"(?:python|pypy|node|nodejs|perl|ruby|php|lua|tclsh|ipython)[\d.]*|deno|bun|Rscript|julia|osascript|groovy"
    r"|ghci|irb"
)
_RUN_THEIR_OWN = frozenset(
    "awk gawk mawk nawk sed vim vi nvim view ex ed emacs tar make gmake man less more fd fdfind rg entr expect gdb"
    " sqlite3 m4 zip rsync nmap socat ssh git".split()
)
_SEARCHING = frozenset("man less more fd fdfind rg".split())
_LIST = lazy_regex(r"""(["'])\s*,\s*\1""")
_ENDS = lazy_regex(r"""["'`\n;|&(){}!\[\]]+|\\n""")
_DELETING_TREES = lazy_regex(
    r"rmtree|rm_rf|rm_r\b|remove_entry|removedirs|remove_tree|deltree|rimraf|removeSync|emptyDir|rm(dir)?Sync"
    r"|fs\.rm\b|\brm\s+-\w*[rRf]|\bmkfs|\bshred\s|>\s*/dev/sd|\bdd\s+\S*of=|\bsudo\s|:!\s*rm\b|exec=\s*rm\b"
    r"|exec\w*=['\"]?rm\b|delete_all|DROP\s+(TABLE|DATABASE)|FileUtils\.rm|Remove-Item"
)
_DELETING_FILES = lazy_regex(r"\bunlink|os\.remove|\.rmdir\(|rename\(|truncate\(|\.rm\(|File\.delete|rmdir\s")


def destroys_by_code(command: SimpleCommand, is_confined: bool) -> str:
    """Return why a command with an inline program needs approval in every mode; empty if nothing in it looks
    destructive. Deleting single files counts only if no sandbox `is_confined` to the workspace, which undo
    restores."""
    name = program(command)
    is_interpreter = INTERPRETERS.fullmatch(name) is not None
    if not is_interpreter and name not in _RUN_THEIR_OWN:
        return ""
    texts = [word for word in command.argv[1:] if re.search(r"[\s('\";{!=]", word)]
    if name == "git":
        texts = [word for word in texts if word.startswith("-") and not word.startswith("-m")]
    text = "\n".join(texts)
    if name not in _SEARCHING and any(map(_discards_by_text, pieces_of(text))):
        return f"`{name}` is given a program in which git discards or overwrites work"
    if _DELETING_TREES.search(text) or (is_interpreter and not is_confined and _DELETING_FILES.search(text)):
        return f"`{name}` is given a program that deletes"
    return ""


def pieces_of(code: str) -> list[str]:
    """Return the texts in a program that may be commands: `git push` in `system("git push")`."""
    return [piece.strip(" \t@-+") for piece in _ENDS.split(_LIST.sub(" ", code))]


def _discards_by_text(piece: str) -> bool:
    words = piece.split()
    try:
        command = SimpleCommand(tuple(map(Word, words)))
        return words[:1] == ["git"] and bool(_discards(command, list(normalize(command)[1:])))
    except Unsure:
        return False


def runs_what_was_written(commands: list[SimpleCommand]) -> bool:
    """Return True if a line runs a file that it writes before, so that nothing tells what it runs."""
    return _running(commands, _written_by) is not None


def _running(
    commands: list[SimpleCommand], files_of: Callable[[SimpleCommand], Iterable[str]], *others: str
) -> SimpleCommand | None:
    """Return the first command that runs one of the files that `files_of` names for those before it, or that is
    one of the `others` and names it."""
    files: set[str] = set()
    for command in commands:
        name = program(command)
        is_run = name in SHELLS or INTERPRETERS.fullmatch(name) or name in ("source", ".", *others)
        named = _run_by(command) if is_run else command.argv[:1]
        if not files.isdisjoint(map(_bare, named)):
            return command
        files |= set(map(_bare, files_of(command)))
    return None


def _written_by(command: SimpleCommand) -> tuple[str, ...]:
    return (*command.writes, *(command.argv[1:] if program(command) == "tee" else ()))


def _run_by(command: SimpleCommand) -> tuple[str, ...]:
    """Return the files that a command may run; what follows the name of a script, and its input, is data."""
    argv = command.argv
    at = next((at for at, word in enumerate(argv) if at and not word.startswith("-")), 0)
    return (
        argv[: at + 1]
        if at and re.fullmatch(r"[\w./~-]+\.(?:py|[cm]?[jt]s|rb|pl|php|sh)", argv[at])
        else (*argv, *command.reads)
    )


def _fetched_by(command: SimpleCommand) -> list[str]:
    """Return the files to which a fetching program writes."""
    name, argv = program(command), command.argv
    if name not in ("curl", "wget", "aria2c"):
        return []
    named = [value for flag, value in zip(argv, argv[1:], strict=False) if re.fullmatch(r"-\w*[oO]", flag)]
    joined = option_values(argv, "-o", "--output", "--output-document")
    urls = [word.rstrip("/").rsplit("/", 1)[-1] for word in argv[1:] if not word.startswith("-")]
    return [*named, *joined, *command.writes, *(urls if "-O" in argv or name != "curl" else [])]


def _bare(word: str) -> str:
    return word.removeprefix("./")
