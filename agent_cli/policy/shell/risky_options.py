"""Options that make a program run another one, or obey files other than the project's. A rule with a wildcard
covers them only if it names them: `shell(go test *)` does not cover `go test -exec ./x`."""

import re

from agent_cli.protocol.paths import is_inside

from .parser import SimpleCommand
from .wrappers import program

_PYTEST = (
    r"-p(?!no:).*|-c.*|-o.*|-W.*|--(rootdir|confcutdir|override-ini|config-file|pdbcls|basetemp|debug"
    r"|junit-?xml|pastebin"
    r"|pyargs|log-file|cov-config|cov-report|result-log|plugins?)(=.*)?"
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
    "mypy": r"--(python-executable|config-file|custom-typeshed-dir|custom-typing-module|install-types|cache-dir"
    r"|.*-report"
    r"|shadow-file|junit-xml|package-root)(=.*)?",
    "ruff": r"--(config|cache-dir|output-file|add-noqa)(=.*)?|-o.*",
    "eslint": r"-c.*|-f.*|-o.*|--(config|rulesdir|plugin|resolve-plugins-relative-to|parser|format|output-file"
    r"|flag"
    r"|cache-\w+|ext-config)(=.*)?",
    "tsc": r"-[pbw].*|--(project|build|outDir|outFile|declarationDir|tsBuildInfoFile|generateTrace"
    r"|generateCpuProfile)(=.*)?",
    "jest": r"-c.*|--(config|rootDir|roots|globalSetup|globalTeardown|runner|setupFiles\w*|testEnvironment"
    r"|transform|reporters"
    r"|resolver|testRunner|preset|projects|outputFile|cacheDirectory|coverageDirectory|snapshotSerializers"
    r"|testSequencer"
    r"|watchPlugins|prettierPath|filter|haste|dependencyExtractor|moduleLoader|testResultsProcessor)(=.*)?",
    "vitest": r"-[cr].*|--(config|root|dir|globalSetup|reporter|outputFile|environment|pool|execArgv|setupFiles"
    r"|coverage\.\S+"
    r"|poolOptions\S*|api|ui|open|browser\S*)(=.*)?",
    "tox": r"-[cx].*|--(conf|override|workdir|root|result-json|runner|default-runner|discover|.*-override)(=.*)?",
    "python": _PYTHON + "|" + _PYTEST,
    "uv": r"--(with\S*|project|directory|env-file|python|index\S*|default-index|extra-index-url|find-links"
    r"|config-file"
    r"|script|module|isolated)(=.*)?|-[mps]|" + _PYTEST,
    "rg": r"--(pre|pre-glob|hostname-bin|search-zip|ignore-file|path-separator|file)(=.*)?|-z|-f.*",
    **dict.fromkeys(["fd", "fdfind"], r"-[xX].*|--exec\S*"),
    "find": r"-(exec|execdir|ok|okdir|delete|fprint\w*|fls|files0-from)",
    "tar": r"--(to-command|checkpoint-action|use-compress-program|rsh-command|info-script|new-volume-script"
    r"|absolute-names"
    r"|directory|files-from|one-top-level)(=.*)?|-[IFPC].*",
    "sort": r"--(compress-prog\S*|output|temporary-directory|files0-from)(=.*)?|-[a-zA-Z]*[oT].*",
    "sed": r"-[a-zA-Z]*[ife].*|--(in-place|file|expression)(=.*)?|" + _SED_RUNS,
    **dict.fromkeys(
        ["awk", "gawk", "mawk", "nawk"], r"-[fieEl].*|--(file|include|load|exec|source)(=.*)?|" + _AWK_RUNS
    ),
    "zip": r"-\w*T.*|--(test|unzip-command)(=.*)?",
    **dict.fromkeys(
        ["gdb", "lldb"], r"-+(ex|eval-command|x|command|iex|ix|init-\S+|[sSoO]|source\S*|one-line\S*)(=.*)?"
    ),
    **dict.fromkeys(
        ["vim", "vi", "nvim", "ex", "view"], r"-[cSsuU].*|--cmd.*|\+.*|--(listen|server|remote\S*)(=.*)?"
    ),
    "man": r"-[PHC].*|--(pager|html|config-file)(=.*)?",
    "less": r"-[oOkT].*|\+.*|--(log-file|lesskey\S*|tag-file)(=.*)?",
    "rsync": r"-e.*|--(rsh|rsync-path|del\S*|remove\S*)(=.*)?",
    **dict.fromkeys(["node", "nodejs"], r"-[a-z]*[eprc].*|--(eval|print|require|import|loader"
    r"|experimental-loader|env-file)(=.*)?"),
    "perl": r"-[a-zA-Z]*[eEIMmdx].*", "ruby": r"-[a-zA-Z]*[eIrCSx].*", "php": r"-[rBREdcz].*",
    "prettier": r"--(config|plugin\S*|ignore-path|config-path)(=.*)?",
    "black": r"--(config|code|line-ranges)(=.*)?|-c.*",
    "gradle": r"-[bcIpD].*|--(build-file|init-script|project-dir|settings-file|include-build"
    r"|gradle-user-home)(=.*)?",
    "mvn": r"-[fsgtD].*|--(file|settings|global-settings|toolchains)(=.*)?",
    "cmake": r"-[PEC].*|-DCMAKE_\w*(LAUNCHER|PROGRAM|COMPILER)\w*.*|--build|--install",
    "curl": r"-[oOKTdFxb].*|--(output|config|upload-file|data\S*|form\S*|proxy\S*|unix-socket|dump-header"
    r"|cookie-jar"
    r"|create-dirs|trace\S*|url-query|json|netrc\S*|key|cert|engine|output-dir)(=.*)?",
    "wget": r"-[OioPe].*|--(output\S*|post\S*|body\S*|execute|config|use-askpass|directory-prefix|input-file"
    r"|load-cookies)(=.*)?",
    "ssh": r"-[oFEILRDWSJ].*", "docker": r"-v.*|--(volume|mount|privileged|device|cap-add|security-opt|pid"
    r"|net\S*|ipc|userns"
    r"|env-file|add-host|entrypoint)(=.*)?",
}  # fmt: skip
"""Whole words of each program that change what a rule was meant to allow."""


def has_risky_option(command: SimpleCommand, pattern: str, roots: tuple[str, ...]) -> bool:
    """Return True if a command that matches a rule's wildcard has words that change its meaning: an option of the
    table that the pattern does not name, or a file outside the workspace that it then runs or obeys."""
    name = program(command)
    spec = RISKY_OPTIONS.get("python" if re.fullmatch(r"python[\d.]*", name) else name)
    if spec is None or not pattern:
        return False
    named = pattern.split()
    fixed = len(named) - 1 if named[-1:] == ["*"] else 0
    for word in command.argv[max(1, fixed) :]:
        if word not in named and (re.fullmatch(spec, word, re.DOTALL) or _is_elsewhere(word, roots)):
            return True
    return False


def _is_elsewhere(word: str, roots: tuple[str, ...]) -> bool:
    path = word.rsplit("=", 1)[-1]
    if path.startswith("/"):
        return ".." in path.split("/") or not is_inside(path, roots)
    return path.startswith("~") or ".." in path.split("/")
