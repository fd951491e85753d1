"""Match rules against simple commands, and choose the rule to offer. Deny and ask rules match any form the command
may take, allow rules only the written form, and only while nothing in the session has changed what its name means.

A wildcard does not cover options that make a program run another one, or obey files other than the project's,
unless the rule names them: `shell(go test *)` does not cover `go test -exec ./x`.
"""

import re
from collections.abc import Sequence
from functools import cache

import msgspec

from agent_cli.protocol.actions import Ask, Reach
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside

from ..rules.dangers import changes_what_runs, may_change_what_runs
from ..rules.path_verdict import Policy
from ..rules.rule import Kind, Rule, join_rules, matches_words
from .databases import CLIENTS
from .destructive import INTERPRETERS
from .parser import SimpleCommand
from .readonly_commands import git_extras_are_known
from .sandbox_needs import is_at_home
from .wrappers import SHELLS, WRAPPERS, normalize, program

_PYTEST = (
    r"-[hvqlxsV]*(p(?!no:)|[coW]).*|--(rootdir|confcutdir|override-ini|config-file|pdbcls|basetemp|debug"
    r"|junit-?xml|pastebin|pyargs|log-file|cov-config|cov-report|result-log|plugins?)(=.*)?"
)
_NPM = (
    r"-C|--(prefix|cwd|dir|script-shell|shell|shell-emulator|node-options|userconfig|globalconfig|use-node-version"
    r"|import|require|preload|config|c)(=.*)?|-r|-c"
)
_PYTHON = (
    r"-[a-zA-Z]*c.*|-[a-zA-Z]*[iX].*|--python-executable(=.*)?|--config-file(=.*)?|--custom-typeshed-dir(=.*)?"
)
_MAKE = (
    r"-[a-zA-Z]*[fCIE].*|--(file|makefile|directory|include-dir|eval|old-file|what-if)(=.*)?"
    r"|(SHELL|MAKE\w*|\.\w+|CC|CXX|LD|AR|\w*FLAGS|\w*CMD|PYTHON|NODE)\+?:?=.*|\w+[+:?]*=.*[/$;|&`(\s].*"
)

_AWK_RUNS = r".*(\bsystem\s*\(|\||\bgetline\b|>|@(load|include)\b|\bENVIRON\b).*"
"""An awk program that runs commands, opens files by name or loads others."""
_SED_RUNS = (
    r"(?:.*[;{}\n]|)\s*(?:\d+|\$|/.*/|,|!|\s)*[eErRwW](?:\s.*|$)"  # e runs its line, r and w name files
    r"|.*s(?P<d>[^\w\s\\])(?:\\.|(?!(?P=d)).)*(?P=d)(?:\\.|(?!(?P=d)).)*(?P=d)[gpimIM0-9]*[ew].*"
)
"""A sed script that runs commands, or reads or writes files by name."""
RISKY_OPTIONS: dict[str, str] = {
    "go": r"--?(exec|toolexec|vettool|overlay|modfile|C|o|pkgdir|ldflags|gcflags|asmflags|gccgoflags|mod"
    r"|modcacherw|cc|outputdir"
    r"|coverprofile|cpuprofile|memprofile|blockprofile|mutexprofile|trace|test\.\w+|c|args)(=.*)?",
    "cargo": r"--(config|manifest-path|target-dir|artifact-dir|out-dir|fix|allow-dirty|lockfile-path)(=.*)?"
    r"|-Z.*|-C.*|\+.*",
    **dict.fromkeys(["make", "gmake"], _MAKE),
    **dict.fromkeys("npm pnpm yarn bun npx bunx".split(), _NPM),
    **dict.fromkeys(["pytest", "py.test"], _PYTEST),
    "mypy": r"--(python-executable|config-file|custom-typeshed-dir|custom-typing-module|install-types"
    r"|cache-dir|.*-report|shadow-file|junit-xml|package-root)(=.*)?",
    "ruff": r"--(config|cache-dir|output-file|add-noqa)(=.*)?|-[a-z]*o.*",
    "eslint": r"-c.*|-f.*|-o.*|--(config|rulesdir|plugin|resolve-plugins-relative-to|parser|format|output-file"
    r"|flag|cache-\w+|ext-config)(=.*)?",
    "tsc": r"-[pbw].*|--(project|build|outDir|outFile|declarationDir|tsBuildInfoFile|generateTrace"
    r"|generateCpuProfile)(=.*)?",
    "jest": r"-c.*|--(config|rootDir|roots|globalSetup|globalTeardown|runner|setupFiles\w*|testEnvironment"
    r"|transform|reporters|resolver|testRunner|preset|projects|outputFile|cacheDirectory|coverageDirectory"
    r"|snapshotSerializers|testSequencer|watchPlugins|prettierPath|filter|haste|dependencyExtractor"
    r"|moduleLoader|testResultsProcessor)(=.*)?",
    "vitest": r"-[cr].*|--(config|root|dir|globalSetup|reporter|outputFile|environment|pool|execArgv"
    r"|setupFiles|coverage\.\S+|poolOptions\S*|api|ui|open|browser\S*)(=.*)?",
    "tox": r"-[vqrpa]*[cx].*|--(conf|override|workdir|root|result-json|runner|default-runner|discover"
    r"|.*-override)(=.*)?",
    "python": _PYTHON + "|" + _PYTEST,
    "uv": r"--(with\S*|project|directory|env-file|python|index\S*|default-index|extra-index-url|find-links"
    r"|config-file|script|module|isolated)(=.*)?|-[mps]|" + _PYTEST,
    "rg": r"--(pre|pre-glob|hostname-bin|search-zip|ignore-file|path-separator|file)(=.*)?|-[a-zA-Z0-9]*[zf].*",
    **dict.fromkeys(["fd", "fdfind"], r"-[a-zA-Z0-9]*[xX].*|--exec\S*"),
    "find": r"-(exec|execdir|ok|okdir|delete|fprint\w*|fls|files0-from)",
    "tar": r"--(to-command|checkpoint-action|use-compress-program|rsh-command|rmt-command|info-script"
    r"|new-volume-script|absolute-names|directory|files-from|one-top-level|index-file|remove-files"
    r"|recursive-unlink)(=.*)?|-[a-zA-Z0-9]*[IFPCT].*",
    "sort": r"--(compress-prog\S*|output|temporary-directory|files0-from)(=.*)?|-[a-zA-Z]*[oT].*",
    "sed": r"-[a-zA-Z]*[ife].*|--(in-place|file|expression)(=.*)?|" + _SED_RUNS,
    **dict.fromkeys(
        ["awk", "gawk", "mawk", "nawk"], r"-[a-zA-EG-Z]*[fieElWdopD].*|--(file|include|load|exec|source|debug"
        r"|dump-variables|profile|pretty-print)(=.*)?|" + _AWK_RUNS
    ),
    "zip": r"-\w*T.*|--(test|unzip-command)(=.*)?",
    **dict.fromkeys(
        ["gdb", "lldb"], r"-+(ex|eval-command|x|command|iex|ix|init-\S+|[sSoO]|source\S*|one-line\S*)(=.*)?"
    ),
    **dict.fromkeys(
        ["vim", "vi", "nvim", "ex", "view"],
        r"(?!-es$)-[a-zA-Z]*[cSsuUwWVi].*|--cmd.*|\+.*|--(listen|server|remote\S*)(=.*)?",
    ),
    "man": r"-[a-zA-Z0-9]*[PHC].*|--(pager|html|config-file)(=.*)?",
    "less": r"-[a-zA-Z]*[oOkT].*|\+.*|--(log-file|lesskey\S*|tag-file)(=.*)?",
    "rsync": r"-[a-zA-Z0-9]*e.*|--(rsh|rsync-path|write-batch|log-file|del\S*|remove\S*)(=.*)?",
    **dict.fromkeys(["node", "nodejs"], r"-[a-z]*[eprc].*|--(eval|print|require|import|loader"
    r"|experimental-loader|env-file)(=.*)?"),
    "perl": r"-[a-zA-Z0-9]*[eEIMmdx].*", "ruby": r"-[a-zA-Z0-9]*[eIrCSx].*", "php": r"-[a-zA-Z]*[rBREdcz].*",
    "prettier": r"--(config|plugin\S*|ignore-path|config-path)(=.*)?",
    "black": r"--(config|code|line-ranges)(=.*)?|-c.*",
    "gradle": r"-[bcIpD].*|--(build-file|init-script|project-dir|settings-file|include-build"
    r"|gradle-user-home)(=.*)?",
    "mvn": r"-[fsgtD].*|--(file|settings|global-settings|toolchains)(=.*)?",
    "cmake": r"-[PEC].*|-DCMAKE_\w*(LAUNCHER|PROGRAM|COMPILER)\w*.*|--build|--install",
    "curl": r"-[#:0-46aBfgGiIjJklLMnNpqRsSvVZ]*(o(?!-$)|[OKTdFxbDc]).*|--(output|config|upload-file|data\S*"
    r"|form\S*|proxy\S*|unix-socket|dump-header|cookie-jar|create-dirs|trace\S*|url-query|json|netrc\S*|key|cert"
    r"|engine|output-dir|remote-name\S*|libcurl|stderr|etag-save|hsts|alt-svc)(=.*)?",
    "wget": r"-[VhbdqvnFcSNrkxHLpEmK]*(O(?!-$)|[ioPea]).*|--(output\S*|append-output|post\S*|body\S*|execute"
    r"|config|use-askpass|directory-prefix|input-file|load-cookies|save-cookies|warc\S*|rejected-log|hsts-file)(=.*)?",
    "ssh": r"-[46AaCfGgKkMNnqsTtVvXxYy]*[oFEILRDWSJ].*", "docker": r"-[a-z]*v.*|--(volume|mount|privileged|device"
    r"|cap-add|security-opt|pid|net\S*|ipc|userns|env-file|add-host|entrypoint)(=.*)?",
}  # fmt: skip
"""Whole words of each program that change what a rule was meant to allow. Letters may be bundled: `-xvC dir`."""
_ABBREVIATED = frozenset(
    "awk gawk curl gdb gmake less make man mvn mypy npm npx sed sort tar tox wget zip".split()
)
"""Programs that take the beginning of a long option for the whole: `sort --outp=x`."""


def has_risky_option(command: SimpleCommand, pattern: str, roots: tuple[str, ...]) -> bool:
    """Return True if a command that matches a rule's wildcard has words that change its meaning: an option of the
    table that the pattern does not name, or a file outside the workspace that it then runs or obeys."""
    name = program(command)
    spec = RISKY_OPTIONS.get("python" if re.fullmatch(r"python[\d.]*", name) else name)
    if spec is None or not pattern:
        return False
    named = pattern.split()
    fixed = len(named) - 1 if named[-1:] == ["*"] else 0
    for at, word in enumerate(command.argv[max(1, fixed) :], max(1, fixed)):
        if word in named:
            continue
        option = f"-{word}" if name == "tar" and at == 1 and not word.startswith("-") else word
        if re.fullmatch(spec, option, re.DOTALL) or _is_elsewhere(word, roots):
            return True
        if name in _ABBREVIATED and _abbreviates(word, spec):
            return True
    return False


def _abbreviates(word: str, spec: str) -> bool:
    """Return True if a word is the beginning of a long option in the table."""
    given = re.match(r"--([\w-]+)(?:=|$)", word)
    if given is None or given[1] in ("file", "checkpoint"):  # options of tar, and the beginning of others
        return False
    return any(name.startswith(given[1]) for name in _long_options(spec))


@cache
def _long_options(spec: str) -> tuple[str, ...]:
    """Return the long options that a regular expression of the table names."""
    return tuple(
        name[0]
        for group in re.findall(r"-\+?\(([^)]*)\)", spec)
        for each in group.split("|")
        if (name := re.match(r"[\w-]+", each))
    )


def _is_elsewhere(word: str, roots: tuple[str, ...]) -> bool:
    path = word.rsplit("=", 1)[-1]
    if path.startswith("/"):
        return ".." in path.split("/") or not is_inside(path, roots)
    return path.startswith("~") or ".." in path.split("/")


_MOST_OPTIONS = 4
_MOST_WORDS = 100


class MatchedRules(msgspec.Struct, frozen=True):
    """The rules on leaving the sandbox that cover one command."""

    denied: Rule | None = None
    asked: Rule | None = None
    allowed: Rule | None = None


def texts_of(part: SimpleCommand) -> tuple[str, ...]:
    """Return the forms of a command that deny and ask rules are matched against."""
    written = part.argv
    name = program(part)
    bare = (name, *written[1:])
    as_git = ("git", name.removeprefix("git-"), *written[1:]) if name.startswith("git-") else bare
    return tuple(dict.fromkeys(" ".join(words) for words in (written, bare, as_git, normalize(part))))


def all_texts_of(part: SimpleCommand) -> tuple[str, ...]:
    """Return the forms of a command for rules that forbid, including those with any options left out, with or
    without their values, so that `make -s release` also matches `make release`."""
    words = normalize(part)
    if len(words) > _MOST_WORDS:
        return texts_of(part)
    options = [at for at, word in enumerate(words) if at and word.startswith("-")][:_MOST_OPTIONS]
    forms = list(texts_of(part))
    for taking in range(1 << len(options)):
        valued = {at + 1 for bit, at in enumerate(options) if taking >> bit & 1}
        kept = [word for at, word in enumerate(words) if at not in valued and not (at and word.startswith("-"))]
        forms.append(" ".join(kept))
    return tuple(dict.fromkeys(forms))


def rule_on_fed(part: SimpleCommand, policy: Policy) -> Rule | None:
    """Return the first deny or ask rule that a command may match through words not visible here: `xargs git` may
    become `git push`."""
    if not part.has_unseen_words:
        return None
    seen = [_before_placeholder(text.split()) for text in all_texts_of(part)]
    for rule in policy.rules:
        pattern = rule.pattern.split()
        if rule.kind == "shell" and rule.effect != "allow" and any(pattern[: len(it)] == it for it in seen):
            return rule
    return None


def _before_placeholder(words: list[str]) -> list[str]:
    return words[: next((at for at, word in enumerate(words) if "{}" in word), len(words))]


def allowing_rule(part: SimpleCommand, policy: Policy, kind: Kind = "shell") -> Rule | None:
    """Return the rule that allows a command. A prefix does not cover options that write files or run programs."""
    if part.assigns or is_redefined(part, policy):
        return None
    text = " ".join(part.argv)
    for rule in policy.rules.of("allow", kind):
        if matches_words(rule, text) and ("*" not in rule.pattern or _still_means(part, rule, policy)):
            return rule
    return None


def _still_means(part: SimpleCommand, rule: Rule, policy: Policy) -> bool:
    """Return True if the words matched by a wildcard do not change what the rule allows."""
    if program(part) == "git":
        return git_extras_are_known(part.argv, rule.pattern)
    return not has_risky_option(part, rule.pattern, policy.roots)


def on_leaving(part: SimpleCommand, policy: Policy) -> MatchedRules:
    """Return the rules on running a command outside the sandbox; deny takes precedence over ask, ask over
    allow."""
    texts = texts_of(part)
    denied = policy.rules.first("deny", "outside", texts)
    asked = None if denied else _asking_rule(texts, policy)
    return MatchedRules(denied, asked, None if denied or asked else allowing_rule(part, policy, "outside"))


def _asking_rule(texts: Sequence[str], policy: Policy) -> Rule | None:
    """Return the rule that asks about a command that leaves the sandbox. One with a pattern comes first: it also
    applies if the command could stay inside."""
    asking = [
        rule for rule in policy.rules.of("ask", "outside") if any(matches_words(rule, text) for text in texts)
    ]
    return max(asking, key=lambda rule: bool(rule.pattern), default=None)


_STARTS = {"egrep": "grep", "fgrep": "grep", "npm": "node"}
"""Read-only programs that are scripts, with the program that each finds by the PATH."""


def is_doubtful(part: SimpleCommand, policy: Policy) -> bool:
    """Return True if earlier calls of the session may have changed what this one runs, so that the tables do
    not apply. A program in the workspace counts where no sandbox would hold it."""
    names = {"*", program(part), _STARTS.get(program(part), "*")}
    if not policy.sandboxed and not names.isdisjoint(policy.local):
        return True
    if not names.isdisjoint(policy.shadowed):
        return True
    return is_redefined(part, policy) or any(map(may_change_what_runs, policy.altered))


def is_redefined(part: SimpleCommand, policy: Policy) -> bool:
    """Return True if a user's rule no longer covers a command because its name has become a function, or programs
    are made to load something. A changed PATH alone, as in a virtual environment, leaves rules in force."""
    if policy.functions and ("*" in policy.functions or program(part) in policy.functions):
        return True
    return any(map(changes_what_runs, policy.altered))


def lines_of(text: str) -> tuple[str, ...]:
    """Return each line of a text that a shell may take for commands, for rules on single commands."""
    return tuple(line for line in map(str.strip, re.split(r"[\n;]|&&|\|\|?", text)) if line)


_PREFIXES = (
    r"(?P<prefix>pytest|ruff|mypy|eslint|tsc|jest|vitest|tox|make [\w.-]+|(?:npm|pnpm|yarn|bun) (?:run [\w:.-]+"
    r"|test)|cargo (?:build|test|check|clippy|fmt)|go (?:build|test|vet)|git (?:add|commit|status|diff|fetch|log)"
    r"|python[\d.]* -m (?:pytest|unittest|mypy)|uv run (?:pytest|ruff|mypy))(?P<more> [\s\S]*)?"
)


_NEVER = frozenset(
    "rm rmdir shred curl wget http https xh ssh scp sftp rsync docker podman nerdctl docker-compose kubectl"
    " sudo doas su find xargs parallel eval exec source . awk gawk mawk nawk sed tee dd nc ncat netcat socat"
    " telnet ftp kill pkill killall chmod chown chgrp trap alias unshare nsenter chroot strace script expect"
    " aws gcloud az gsutil".split()
)
"""Programs whose next call may do something entirely different."""
_ACTIVATES = lazy_regex(r"(?:source|\.) [\w./-]*\bbin/activate")
"""The usual first command of a line in a Python project."""
_DIVERTS = lazy_regex(r"-[a-zA-Z#0-9]*[Kx].*|--(?:config|\w*proxy|socks|connect-to|resolve|next).*")
"""Options with which curl does what a file says, or reaches other servers under the name of this machine."""
_MOST_GRANTS = 4
_CODE = lazy_regex(r"-[a-zA-Z]*[ceErpS]\b.*|--(eval|print|exec|execute|command|expression)(=.*)?|eval|-|-c.+|-e.+")


def _is_code(command: SimpleCommand) -> bool:
    """Return True if an interpreter gets its program as text or on standard input, not as `python -m x` or a
    file."""
    argv = command.argv[1:]
    return not argv or any(_CODE.fullmatch(word) for word in argv[:3])


def grant_for(command: SimpleCommand, *, leaves: bool) -> str:
    """Return the rule to offer: one on leaving the sandbox if nothing less would be enough."""
    rule = _own_grant(command)
    return f"outside{rule.removeprefix('shell')}" if rule and leaves else rule


def _own_grant(command: SimpleCommand) -> str:
    """Return a rule that would allow a simple command next time; empty if none should be offered: with variables
    set in front, with globs, and if words with spaces would make the exact rule cover other commands too."""
    if not command.words or command.assigns or any(word.glob for word in command.words):
        return ""
    name = program(command)
    wrapper = WRAPPERS.get(name)
    text = " ".join(command.argv)
    is_here = name == "curl" and is_at_home(command) and not any(map(_DIVERTS.fullmatch, command.argv))
    is_other = name in _NEVER and not _ACTIVATES.fullmatch(text) and not is_here
    if is_other or (wrapper and not wrapper.verbs and not wrapper.is_loose):
        return ""
    match = re.fullmatch(_PREFIXES, text)
    if match and not match["prefix"].startswith("make -") and _is_plain(command, f"{match['prefix']} *"):
        return f"shell({match['prefix']} *)" if match["more"] else f"shell({text})"
    takes_code = name in SHELLS or name in CLIENTS or INTERPRETERS.fullmatch(name)
    if takes_code and _is_code(command):
        return ""
    if any(re.search(r"[\s*;]", word) or not word for word in command.argv):
        return ""
    return f"shell({text})"


def grants_for(asks: Sequence[Ask], reach: Reach) -> str:
    """Return the rules that would allow a line next time; empty if one of its commands that ask can have none, or
    if the line needs several rules and leaves the sandbox."""
    grants = tuple(dict.fromkeys(ask.grant for ask in asks))
    if "" in grants or (grants[1:] and (reach == "outside" or len(grants) > _MOST_GRANTS)):
        return ""
    return join_rules(grants)


def _is_plain(command: SimpleCommand, pattern: str) -> bool:
    """Return True if a prefix rule would cover this very command."""
    if command.argv[0] == "git":
        return git_extras_are_known(command.argv, "")
    return not has_risky_option(command, pattern, ())
