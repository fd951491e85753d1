"""Tables of what commands need beyond their sandbox: the network, or access that no sandbox can give. All
functions expect normalized commands, as in `destructive`."""

import re
from collections.abc import Iterable

import msgspec

from agent_cli.protocol.actions import Reach
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from .destructive import Cwd, operands, written_targets
from .parser import SimpleCommand, Unsure, parse
from .wrappers import MAX_SHELLS, all_started_by, normalize, unwrap


class SandboxNeed(msgspec.Struct, frozen=True):
    """The reach a command needs, and why, in words that follow its name."""

    reach: Reach = "inside"
    why: str = ""
    by_http: bool = False
    """True if the network is needed only for downloads over HTTP, which a proxy can limit to single hosts."""
    keys: bool = False
    """True if it usually works only with keys of the user that the sandbox hides. A question about it is one about
    leaving the sandbox; a rule that allows it gives it the network alone, with which the keys of a CI job do."""


NETWORK_NEEDED = "needs the network"
_KEYS = "needs the network and your keys, which the sandbox hides"


_WITH_VALUE = r"(?:-C|-w|-F|--(?:prefix|cwd|dir|workspace|filter|project|directory|manifest-path))"


def _all(names: str, words: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), words)


def _verbs(verbs: str) -> str:
    """Return a regular expression for one of some verbs as the first word that is not an option."""
    return rf"^(?: {_WITH_VALUE} \S+| (?!{_WITH_VALUE} )-\S*)* (?:{verbs})(?: |$)"


_ABOUT = r"^ (--?version|-V|--?help|-h) $"

NETWORK: dict[str, str] = {
    **_all(
        "curl wget aria2c ssh scp sftp ftp tftp telnet nc ncat netcat socat mosh ping ping6 traceroute"
        " tracepath mtr dig nslookup host whois nmap http https xh httpie lynx w3m links elinks rclone yt-dlp"
        " youtube-dl gh glab hub tea heroku vercel netlify flyctl fly wrangler firebase railway supabase twine"
        " cloudflared ngrok lftp s3cmd uvx corepack ansible"
        " ansible-playbook ansible-galaxy pipx steampipe dog doggo",
        "",
    ),
    "git": (
        r"^ (push|pull|fetch|clone|ls-remote|send-email|svn|fetch-pack|send-pack|http-\S+|imap-send|request-pull"
        r"|submodule( -\S+)* (update|add)|remote( -\S+)* (update|show|prune)|lfs (pull|fetch|push|clone)"
        r"|archive .*--remote|bundle-uri|scalar|maintenance run .*prefetch) "
    ),
    "rsync": r" (\S*@)?[\w.-]+::?\S* | rsync://",
    "npm": _verbs(
        r"i|in|ins\w*|install|install-\S+|isntall|ci|clean-install|add|a|update|up\w*|outdated|audit|view|v"
        r"|info|show|search|publish|unpublish|login|logout|adduser|whoami|ping|create|init (?!-)\S+|innit (?!-)\S+"
        r"|dedupe|dist-tags?|deprecate|access|team|token|profile|owner|star|unstar|org|hook|doctor|fund|x .*@"
        r"|exec .*@|stage"
    ),
    **_all(
        "pnpm bun",
        _verbs(
            r"i|install|ci|add|a|update|up|upgrade|outdated|audit|view|info|search|publish|login|create|dlx|x"
            r"|fetch|import|self-update|env|patch|pm trust"
        ),
    ),
    "yarn": r"^ *$|^(?: -\S*)+ $|"
    + _verbs(
        r"install|add|up|upgrade|upgrade-interactive|outdated|audit|info|publish|login|create|dlx|npm \S+"
        r"|global \S+|set|import|policies"
    ),
    "npx": r" (-y|--yes) | \S+@\S+ | create-\S+ ",
    "bunx": r" \S+@\S+ | create-\S+ ",
    "deno": _verbs("install|cache|add|upgrade|publish|info|outdated|jsr") + r"| (https?|npm|jsr):",
    **_all("pip pip3", _verbs("install|download|wheel|index|search|list .*(-o|--outdated)") + r"(?!.*--no-index)"),
    "uv": _verbs(
        r"sync|add|lock|publish|build|self \S+|python (install|upgrade|list)|pip (install|compile|sync|download)"
        r"|tool (install|run|upgrade)|run .*--(with|upgrade|refresh)\S*|x"
    ),
    "poetry": _verbs("install|add|update|lock|self \\S+|publish|search|show .*(-o|--outdated|-l|--latest)|new"
    "|sync"),
    **_all("pdm pipenv", _verbs("install|add|update|lock|sync|self \\S+|publish|search|upgrade|outdated|graph")),
    "hatch": _verbs("publish|env create|dep \\S+|python install|self \\S+"),
    **_all(
        "conda mamba micromamba pixi", _verbs("install|create|update|upgrade|search|env (create|update)|add"
        "|remove|lock")
    ),
    "cargo": r"^(?!.* --offline ).*"
    + _verbs(r"(\+\S+ )?(add|update|fetch|search|publish|login|vendor|generate-lockfile|info|yank|owner|audit"
    r"|outdated|deny|upgrade)").removeprefix("^"),
    "go": _verbs("get|mod (download|tidy|vendor|why|verify|graph)|work sync|list .*-u|telemetry")
    + r"| (run|install)( -\S+)* \S+@",
    "gem": _verbs("update|fetch|push|search|outdated|owner|yank|signin"),
    **_all("bundle bundler", r"^ *$|" + _verbs("install|update|add|outdated|lock|package|cache|audit")),
    "composer": _verbs("install|update|require|create-project|outdated|search|audit|self-update|show .*(-l"
    "|--latest)|i|u"),
    **_all("mvn mvnw", r" (dependency|versions|deploy|release|site-deploy)[: ]| -U | --update-snapshots "),
    **_all("gradle gradlew", r" --refresh-dependencies | publish\S* | dependencyUpdates "),
    "dotnet": _verbs("restore|add .*package|tool (install|update|restore)|nuget \\S+|new .*install|workload \\S+"),
    **_all("nuget mix rebar3 stack cabal opam luarocks cpanm cpan pub", r" (install|update|restore|get"
    r"|deps\.get|require|upgrade|fetch|add|push|publish|setup|build|init|download|outdated)\b"),
    **_all("flutter dart", _verbs("pub \\S+|upgrade|channel|precache|create")),
    "swift": _verbs("package (resolve|update)"),
    "pod": _verbs("install|update|repo \\S+|search|trunk \\S+"),
    **_all("pre-commit prek", _verbs("install-hooks|autoupdate|auto-update|try-repo|run .*--install-hooks")),
    "rustup": _verbs("check"),
    **_all(
        "nvm fnm volta asdf mise sdk",
        _verbs(r"i|install\S*|up|update|upgrade|self-?update|u|pin|fetch|outdated|latest|plugins?|search"
        r"|\S+-remote|list[ -]all|plugin-\S+|sync"),
    ),
    **_all("playwright cypress puppeteer", _verbs("install|install-deps")),
    **_all("psql mysql mariadb mongosh redis-cli pg_dump pg_restore mysqldump createdb dropdb", ""),
    **_all("terraform tofu terragrunt pulumi", r" (init|plan|apply|destroy|refresh|import|get|providers|login"
    r"|up|preview) "),
    "huggingface-cli": "", "hf": "", "wandb": "", "dvc": r" (push|pull|fetch|import\S*) ",
    "openssl": " s_client ", "vercel": "", "svn": r" (co|checkout|up|update|ci|commit|ls|list|info|export"
    r"|switch) ",
    "hg": r" (pull|push|clone|incoming|outgoing|in|out|identify) ", "tailscale": "",
}  # fmt: skip
"""For each program, the arguments, joined and surrounded by spaces, that need the network."""

_OFFLINE: dict[str, str] = {
    **_all("npm pnpm yarn bun uv", r" --offline(=true)? "),
    **_all("bundle bundler", r" --local "),
}
"""For each program, the arguments with which commands of `NETWORK` do not use the network."""

_WITH_KEYS: dict[str, str] = {
    **_all("ssh scp sftp mosh gh glab hub twine", ""),
    "rsync": r" (\S*@)?[\w.-]+:(?!:)\S* ",
    "git": r"^ (push|send-pack|send-email) |[ =](ssh://|[\w.-]+@[\w.-]+:(?!\d+/))",
    **_all("npm pnpm yarn bun", _verbs("publish|unpublish|login|logout|adduser|whoami|npm publish")),
    "cargo": _verbs(r"(\+\S+ )?(publish|yank|owner)"),
    "gem": _verbs("push|yank|owner|signin"),
    **_all("poetry uv hatch pdm", _verbs("publish")),
}
"""For each program, the arguments of `NETWORK` with which the network is useless without keys of the user."""

OUTSIDE: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        "docker podman nerdctl docker-compose podman-compose buildah skopeo colima lima limactl kind minikube"
        " k3d".split(),
        ("", "talks to a service outside the sandbox"),
    ),
    **dict.fromkeys(
        "kubectl helm aws gcloud az gsutil oc eksctl kustomize-deploy vault op".split(),
        ("", "needs credentials that the sandbox hides"),
    ),
    **dict.fromkeys(
        "apt apt-get aptitude dpkg yum dnf microdnf zypper apk pacman brew port snap flatpak rpm emerge"
        " nix-env choco winget".split(),
        (
            r" (install|reinstall|remove|purge|update|upgrade|full-upgrade|dist-upgrade|autoremove|add|del"
            r"|erase|uninstall|tap|link|unlink|services|cleanup|-[SRUiIere]\w*|--install|--remove|clean) ",
            "changes what is installed on the machine",
        ),
    ),
    # `kill %1` can only name a job of its own line.
    "kill": (r"^(?! -l)(?!(?: -\w+)*(?: %\S*)+ $)", "ends processes outside the sandbox"),
    **dict.fromkeys("pkill killall fuser".split(), (r"^(?! -l)", "ends processes outside the sandbox")),
    **dict.fromkeys(
        "tmux screen zellij dbus-send busctl gdbus xdg-open open code cursor subl idea systemd-run loginctl"
        " notify-send osascript pbcopy pbpaste xclip xsel wl-copy wl-paste gpg gpg2 ssh-add ssh-keygen"
        " ssh-copy-id gpgconf security adb fastboot".split(),
        ("", "reaches services or keys outside the sandbox"),
    ),
    "npm": (r" (-g|--global|--location=global) ", "installs for the whole user"),
    "pnpm": (
        r" (-g|--global) |^(?!.* --store-dir)" + _verbs("add|a|update|up|upgrade|dlx|create").removeprefix("^"),
        "writes to a store of the whole user",
    ),
    "yarn": (r"^ global ", "installs for the whole user"),
    "bun": (r" (-g|--global) ", "installs for the whole user"),
    **dict.fromkeys(["pip", "pip3"], (r" (--user|--break-system-packages) ", "installs for the whole user")),
    "pipx": (r" (install|uninstall|upgrade\S*|inject|reinstall\S*) ", "installs for the whole user"),
    "uv": (r"^ (tool (install|uninstall|upgrade)|self|python (install|uninstall)) |--system ", "installs for"
    " the user"),
    "cargo": (r"^ (\+\S+ )?(install|uninstall|login) ", "installs for the whole user"),
    "rustup": (r" (install|update|default|target|component|toolchain|self|override) ", "changes the toolchains"),
    "go": (r"^ (install|env .*-w) ", "installs for the whole user"),
    "gem": (r"^ (install|uninstall|cleanup) ", "installs for the whole user"),
    "git": (r"^ config .*--(global|system) (?!.*--get)(?!-l |--list )", "changes the settings of all"
    " repositories"),
    **dict.fromkeys(["fnm", "volta", "asdf", "mise", "sdk"], (r" (install|uninstall|use|default) ",
    "changes the toolchains")),
    "nvm": (r"^ (install|i|uninstall|alias|unalias|reinstall-packages) ", "changes the toolchains"),
    **dict.fromkeys(["journalctl", "systemctl", "service", "launchctl"], ("", "talks to the system's services")),
}  # fmt: skip
"""For each program, the arguments that no sandbox can support, and why."""

_LOADS_BY_HTTP = frozenset(
    "curl wget aria2c http https xh httpie yt-dlp npm npx pnpm yarn bun bunx deno corepack pip pip3 uv uvx poetry"
    " pdm pipenv hatch conda mamba micromamba pixi cargo go gem bundle bundler composer dotnet pre-commit"
    " prek".split()
)
_OTHERWISE = lazy_regex(
    r" (push|publish|unpublish|login|logout|adduser|signin|yank|owner|deprecate|access|team|token|profile|org|hook"
    r"|dist-tags?|star|unstar|stage) |[ =](?!(?:git\+)?https?:)[a-z][a-z+.-]*://| [\w.-]+@[\w.-]+:"
)
"""Words that publish in the user's name, or use another protocol."""
_GIT_BY_HTTP = lazy_regex(r"^(?: -c \S+)* (?:clone|fetch|pull|ls-remote)(?= )(?=.* https?://)")

_UNREAD = lazy_regex(
    r"(?:^|[|;&(`\n{]|\b(?:do|then|else|time|exec|command|env|sudo)\s)\s{0,9}(?:\S{0,99}/)?(?:curl|wget|ssh|scp"
    r"|sftp|gh|ncat|nc|aria2c|git\s{1,9}(?:-\S{1,99}\s{1,9}){0,5}(?:push|pull|fetch|clone|ls-remote)|(?:npm|pnpm"
    r"|yarn|bun)\s{1,9}(?:i|ci|install|add|update)|(?:\S{0,99}python[\d.]*\s{1,9}-m\s{1,9})?pip3?\s{1,9}(?:install"
    r"|download)|uv\s{1,9}(?:sync|add|lock|pip\s{1,9}install)|poetry\s{1,9}(?:install|add|update)"
    r"|cargo\s{1,9}(?:add|update|fetch)|go\s{1,9}(?:get|mod\s{1,9}(?:download|tidy)))(?![\w-])",
    re.IGNORECASE,
)


_END_OF_COMMAND = lazy_regex(r"[;&|\n)`]")
_AT_HOME = lazy_regex(r"(?:https?://)?(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?(?:[/?#].*)?")
_ELSEWHERE = lazy_regex(r"://|^[^@-].*\.[A-Za-z]|@.*:")


def need_of(command: SimpleCommand, cwd: str, place: Cwd) -> SandboxNeed:
    """Return what one simple command needs when it runs in `cwd`, without the commands it runs."""
    words = _through_module(normalize(command))
    if not words:
        return SandboxNeed()
    name, line = words[0], f" {' '.join(words[1:])} "
    if re.search(_ABOUT, line):
        return SandboxNeed()
    pattern, why = OUTSIDE.get(name, (None, ""))
    if pattern is not None and re.search(pattern, line):
        return SandboxNeed("outside", why)
    open_folders = (*place.roots, *place.scratch)
    if not is_inside(cwd, open_folders):
        return SandboxNeed("outside", f"runs in {cwd}, outside the workspace")
    for target in written_targets(command):
        path = place.resolve(target)
        if not path.startswith("/dev/") and not is_inside(path, open_folders):
            return SandboxNeed("outside", f"changes {target}, which is outside the workspace")
    if name in _LOADS_BY_HTTP and is_at_home(command):
        return SandboxNeed()
    if name in _OFFLINE and re.search(_OFFLINE[name], line):
        return SandboxNeed()
    if name in NETWORK and re.search(NETWORK[name], line):
        keys = name in _WITH_KEYS and re.search(_WITH_KEYS[name], line) is not None
        return SandboxNeed("network", NETWORK_NEEDED, not keys and _is_by_http(name, line), keys)
    return _elsewhere(name, command, place, open_folders)


def need_with_started(command: SimpleCommand, cwd: str, place: Cwd) -> SandboxNeed:
    """Return what one simple command needs, or else what it starts through programs with unknown options, such as
    `uv run`, in a shell too.

    Raises:
        Unsure: too many words may begin a command.
    """
    started = all_started_by([command])
    return _first_need((command, *started.commands), started.scripts, cwd, place, 0)


def _first_need(
    commands: Iterable[SimpleCommand], scripts: Iterable[str], cwd: str, place: Cwd, depth: int
) -> SandboxNeed:
    for command in commands:
        if (need := need_of(command, cwd, place)).why:
            return need
    for script in scripts:
        try:
            inside = [unwrap(part) for part in parse(script)] if depth < MAX_SHELLS else []
        except Unsure:
            need = unread_need(script)
        else:
            needs = (_first_need(each.commands, each.scripts, cwd, place, depth + 1) for each in inside)
            need = next((each for each in needs if each.why), SandboxNeed())
        if need.why:
            return need
    return SandboxNeed()


def leaving_need(need: SandboxNeed) -> SandboxNeed:
    """Return what a question about a command asks for."""
    return SandboxNeed("outside", _KEYS) if need.keys else need


def is_at_home(command: SimpleCommand) -> bool:
    """Return True if a command names only servers of this machine: sandboxed commands reach each other's servers
    and no others."""
    words = command.argv[1:]
    ours = [word for word in words if _AT_HOME.fullmatch(word)]
    return bool(ours) and not any(_ELSEWHERE.search(word) for word in words if word not in ours)


def _is_by_http(name: str, line: str) -> bool:
    if _OTHERWISE.search(line):
        return False
    return name in _LOADS_BY_HTTP or (name == "git" and _GIT_BY_HTTP.search(line) is not None)


def unread_need(line: str) -> SandboxNeed:
    """Return what a line that cannot be parsed plainly needs."""
    found = any(not _stays_at_home(line, each) for each in _UNREAD.finditer(line))
    return SandboxNeed("network", NETWORK_NEEDED) if found else SandboxNeed()


def _stays_at_home(line: str, found: re.Match[str]) -> bool:
    """Return True if what was found fetches from a server of this machine: `curl -s "localhost:3000/$page"`."""
    if not found.group().lower().endswith(("curl", "wget")):
        return False
    end = _END_OF_COMMAND.search(line, found.end())
    said = re.sub(r":\$\{?\w+\}?", ":1", line[found.end() : end.start() if end else None])
    words = [word.strip("\"'") for word in said.split()]
    others = [word for word in words if not _AT_HOME.fullmatch(word)]
    return len(others) < len(words) and not any(_ELSEWHERE.search(each) or each[:1] == "$" for each in others)


def _elsewhere(name: str, command: SimpleCommand, place: Cwd, folders: tuple[str, ...]) -> SandboxNeed:
    """Return the need of a git command that works in a folder of another repository."""
    argv = command.argv
    for before, word in zip(argv, argv[1:], strict=False):
        if name == "git" and before == "-C" and not is_inside(place.resolve(word), folders):
            return SandboxNeed("outside", f"works in {word}, outside the workspace")
    if name == "git" and len(argv) > 2 and argv[1] in ("init", "worktree"):
        for target in operands(command)[1:]:
            if target.text != "add" and "/" in target.text and not is_inside(place.resolve(target.text), folders):
                return SandboxNeed("outside", f"works in {target.text}, outside the workspace")
    return SandboxNeed()


def _through_module(words: tuple[str, ...]) -> tuple[str, ...]:
    """Convert `python -m pip install x` to `pip install x`."""
    if words and re.fullmatch(r"pip[\d.]+", words[0]):
        return ("pip", *words[1:])
    if len(words) > 2 and re.fullmatch(r"python[\d.]*|py|pypy\d*", words[0]) and words[1] == "-m":
        return words[2:]
    return words
