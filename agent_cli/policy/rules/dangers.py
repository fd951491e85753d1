"""Programs that ask in every mode, with the arguments that make them destroy something or plant something to run
later, and the variables that change what programs do."""

import re
from collections.abc import Sequence

import msgspec

RUNNING_SETTINGS = (
    r"(?:core\.(?:hookspath|fsmonitor|sshcommand|pager|editor|askpass|gitproxy|attributesfile|worktree)|pager\.\S*"
    r"|sequence\.editor|gpg\.\S*|credential\.\S*|url\.\S*|protocol\.\S*|safe\.\S*|include(?:if)?\.\S*"
    r"|init\.templatedir"
    r"|(?:alias|diff|filter|merge|difftool|mergetool|browser|man|web|tar)\.\S+|submodule\.\S*update"
    r"|remote\.\S*\.(?:uploadpack|receivepack|vcs|proxy|mirror|push(?!url))|interactive\.difffilter|imap\.tunnel"
    r"|core\.alternaterefscommand|uploadpack\.packobjectshook|sendemail\.(?:\S*cmd|smtpserver)|lfs\.(?:customtransfer|standalonetransfer|extension)\S*"
    r"|\S*\.(?:textconv|command|driver|clean|smudge|process|cmd|helper|program))"
)
"""Settings of git that name a program to be run, or what is pushed where."""
_RUNS_LATER = (
    r"LD_\w+|DYLD_\w+|PATH|GIT_\w+|PYTHON(?:PATH|HOME|STARTUP|BREAKPOINT)|PERL5\w*|RUBY(?:OPT|LIB)"
    r"|NODE_(?:OPTIONS|PATH)|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|\w*EDITOR|VISUAL"
    r"|\w*PAGER|JAVA_TOOL_OPTIONS|CLASSPATH|SHELL|HOME|SSH_\w+"
)

_OF_PROJECTS = r"PYTHONPATH|NODE_PATH|RUBYLIB|PERL5LIB|CLASSPATH"
"""Folders with code of the project. Running the project's tests runs that code anyway, so these ask no more than
the command would; afterwards no table and no rule applies to programs that heed them."""
OF_COMMITS = r"GIT_(?:(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|TERMINAL_PROMPT|OPTIONAL_LOCKS|MERGE_AUTOEDIT)"
STEERS = rf"(?!(?:{_OF_PROJECTS}|{OF_COMMITS})(?:\+?=|\Z))(?:{_RUNS_LATER})"

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


def is_said(pattern: str, arguments: Sequence[str]) -> bool:
    """Return True if a pattern of one of these tables is found in arguments, joined and surrounded by spaces. Text
    with spaces in an argument can match, but it is no option that makes the command harmless."""
    if re.search(pattern, f" {' '.join(arguments)} "):
        return True
    single = (re.sub(r"\s", "_", word) for word in arguments)
    return any(re.search(r"\s", word) for word in arguments) and bool(re.search(pattern, f" {' '.join(single)} "))


class Danger(msgspec.Struct, frozen=True):
    """A command that asks: `words` is searched for in its arguments, joined and surrounded by spaces."""

    words: str
    why: str
    unless: tuple[str, ...] = ()
    """Options with which it changes nothing."""

    def is_in(self, arguments: Sequence[str]) -> bool:
        """Return True if a command with these arguments asks."""
        return is_said(self.words, arguments) and not self._only_looks(arguments)

    def _only_looks(self, arguments: Sequence[str]) -> bool:
        """Return True if it is asked to change nothing, and nowhere otherwise. What may be the value of another
        option, or belong to a command that it starts, asks for nothing."""
        names = {option.partition("=")[0] for option in self.unless}
        given = [at for at, word in enumerate(arguments) if word.partition("=")[0] in names]
        if not given or not {"--", "exec"}.isdisjoint(arguments):
            return False
        before = [arguments[at - 1] for at in given if at]
        is_own = all(word[:1] != "-" or "=" in word or word in {*_FLAGS, *self.unless} for word in before)
        return is_own and all(arguments[at] in self.unless for at in given)


def _all(names: str, words: str, why: str) -> dict[str, Danger]:
    return dict.fromkeys(names.split(), Danger(words, why))


_ON_A_FORGE = r" (delete|create|publish|merge|upload|archive|transfer) | (-X|--method)[ =]?(DELETE|PUT|PATCH) "
_DRY_RUN = ("--dry-run", "--dry-run=client", "--dry-run=server")
_LISTS = ("--list-hosts", "--help", "--version")
_FLAGS = frozenset(
    "-i -A -R --install --atomic --wait --debug --force --all --recursive --server-side --create-namespace --diff"
    " --ignore-daemonsets --ignore-not-found".split()
)
"""Options without a value, which may stand before those of `Danger.unless`."""
ADDS = r" \S+ (create|publish|merge|upload) | push "
"""What changes something elsewhere and loses nothing."""
LATER = "changes what later commands run"
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
    "helm": Danger(" (install|upgrade|uninstall|delete|rollback|push) ", "changes a cluster", _DRY_RUN),
    "ansible-playbook": Danger(
        "", "changes machines", ("-C", "--check", "--syntax-check", "--list-tasks", "--list-tags", *_LISTS)
    ),
    "ansible": Danger("", "changes machines", _LISTS),
    **_all("kill", r" \S.* -1 | -- -1 |(?<! -s)(?<! -n) 1 ", "ends every process"),
    "agent": Danger(
        r" config (set|edit|init) | mcp (add|remove|trust|login|logout) "
        r"| plugin (add|enable|disable|update|remove) ", "changes its own configuration"
    ),
    "crontab": Danger(r"^(?! -l $)", "changes what runs by itself"),
    **_all("at batch launchctl systemd-run", "", "changes what runs by itself"),
    "systemctl": Danger(
        r"^(?! (?:-(?:[HMnopt]|-host|-machine) \S+ |-\S+ )*+(status|show(-environment)?|cat|list-\S+|is-\S+) )",
        "changes services",
    ),
    "service": Danger(r"^(?! (\S+ status|--status-all) $)", "changes services"),
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
        "terraform tofu pulumi cdk cdktf terragrunt helmfile", r" (destroy|apply|sync|up|deploy|import"
        r"|(state|stack) rm|state (push|delete)|force-unlock|workspace delete) ", "changes machines",
    ),
    **dict.fromkeys(("kubectl", "oc"), Danger(
        r" (delete|drain|replace|apply|scale|patch|exec|edit|cordon|taint|rollout (undo|restart)"
        r"|set (image|env|resources|selector)) ", "changes a cluster", _DRY_RUN,
    )),
    **_all(
        "aws gcloud az gsutil", r" (rm|rb|delete\S*|terminate\S*|remove\S*|purge\S*|--delete\S*)"
        r" | rsync (.* )?-\w*d\w* ", "deletes in the cloud",
    ),
    **_all(
        "fly flyctl heroku vercel netlify railway wrangler firebase supabase doctl linode-cli hcloud eksctl sam"
        " serverless sls sst argocd flux skaffold vagrant multipass virsh lxc incus minikube kind k3d colima bq mc"
        " s3cmd b2 rclone",
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
    **_all("export declare typeset readonly", rf" {STEERS}=", LATER),
    **_all("alias enable", r" \S", LATER),
    "direnv": Danger(r"^ (allow|permit|grant|edit) ", LATER),
    "mise": Danger(r"^ trust ", LATER),
    "trap": Danger(r"^(?! (?:-[lp]+ |- | )(?:[A-Z0-9+-]+ )*$)", LATER),
    "hash": Danger(" -[a-z]*p", LATER),
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
    rf".* {RUNNING_SETTINGS} \S",
}
"""Git verbs and the arguments with which they discard work or plant a program."""
GIT_WHY: dict[str, str] = {
    "config": "sets a program to be run, or what is pushed",
    "push": "may rewrite or delete what is on the server, or run a program",
    **dict.fromkeys(["fetch", "pull", "ls-remote", "clone"], "runs a program that its arguments name"),
}
"""Why verbs of git ask, where that is not that they discard work or history."""
