"""Tables of read-only programs with the options that keep them read-only. An option missing from the tables makes
a command one that may change things."""

import re
from typing import Literal

import msgspec

from .parser import SimpleCommand, Word

_ANY = r"[\s\S]*"
_MANY = 1_000_000

Opens = Literal["", "visible", "all"]
"""Files a program may open without their being named: none, those a search shows by default, or hidden and ignored
ones too."""


class Program(msgspec.Struct, frozen=True):
    """A read-only program. All texts are regular expressions for whole words."""

    options: str = ""
    """Options without a value or with it in the same word."""
    valued: str = ""
    """Options whose value, not a file, is the next word."""
    operand: str = _ANY
    most: int = _MANY
    """Maximum number of operands."""
    pattern: str = ""
    """Form of the first operand if it is a pattern or script, not a file."""
    unpatterned: str = ""
    """Options with which the first operand is a file after all."""
    paths: bool = True
    """True if its operands are files it reads."""
    globs: Literal["any", "suffix", "named", "behind", "none"] = "any"
    """Globs that may start with a wildcard, given that a matching file may be named like an option: `any` if no
    option can do more than read; `suffix` if no option ends in `.ext`; `named` if options can write or run;
    `behind`: globs only behind the first operand, which ends the options; `none`: no globs at all, because the
    second file is written to."""
    ends: bool = True
    """True if `--` ends its options."""
    options_first: bool = False
    """True if an option behind the first operand may be taken for a file, which is written to."""
    opens: Opens = ""
    opens_all: str = ""

    @property
    def takes_any(self) -> bool:
        """True if it may have any number of any operands."""
        return self.most == _MANY and self.operand == _ANY and self.pattern in ("", _ANY)


class Reading(msgspec.Struct, frozen=True):
    """The files of a read-only command. `files`: the words it opens. `judged`: words checked against deny and ask
    rules; only a search pattern is in neither."""

    files: tuple[Word, ...] = ()
    judged: tuple[Word, ...] = ()
    opens: Opens = ""
    by_git: bool = False
    """True if it obeys the settings of the repository it runs in."""
    in_sandbox: bool = False
    """True if it is known to be read-only in the sandbox alone."""


_TEXT = Program(_ANY, paths=False)
_FORMAT = r"([^%$`]|%%|%[^%a-zA-Z($`]*(\([^)$`]*\))?(?=[a-zA-Z]|$)(?![hlLjqtz]*n))*"
"""printf sets a variable by `%n`, and evaluates an index in its name."""
_UNLISTED = r"(?!@)[\s\S]*"
"""`@file` stands for the words in a file, even behind `--`."""
_SOCKET = r"[46]?(TCP|UDP|tcp|udp)?(@(localhost|[\d.]+))?(:[\w,-]+)?"
"""Sockets for `lsof`; any other name of a host would be looked up in the network."""
_SUMS = Program("-[btz]+|--tag|--binary|--text")
_GREP = Program(
    r"-[abcEFGhHiIlLnoPqrsvwxyzZT]*([ABCm]?\d+|e.+)?|--(include|exclude|exclude-dir|colou?r|regexp)=.*"
    r"|--(after-context|before-context|context|max-count)=\d+|--(binary-files|label)=\w+|--(colou?r|line-number"
    r"|ignore-case|recursive|files-with-matches|files-without-match|count|word-regexp|line-regexp|fixed-strings"
    r"|extended-regexp|basic-regexp|perl-regexp|invert-match|only-matching|no-filename|with-filename|quiet|silent"
    r"|no-messages|null|text|byte-offset|initial-tab|no-ignore-case)",
    r"-[abcEFGhHiIlLnoPqrsvwxyzZT]*[ABCme]|--(include|exclude|exclude-dir|regexp|after-context|before-context"
    r"|context|max-count)",
    pattern=_ANY, unpatterned=r"-[a-zA-Z]*e.*|--regexp(=.*)?",
    opens_all=r"-[abcEFGhHiIlLnoPqrsvwxyzZT]*r.*|--recursive",
)  # fmt: skip
_RG_SHORT = r"-[acFHiIlnNoPsSUvwx0pqu.]*"
_RG = Program(
    _RG_SHORT + r"([ABCmMjd]\d+|[gtTer].+)?|--(glob|iglob|type|type-not|regexp|replace|color|sort|sortr|engine)=.+"
    r"|--(context|after-context|before-context|max-count|max-depth|max-columns|threads)=\d+|--(files|hidden"
    r"|no-ignore|no-ignore-vcs|no-heading|heading|line-number|no-line-number|ignore-case|smart-case|case-sensitive"
    r"|word-regexp|line-regexp|fixed-strings|files-with-matches|files-without-match|count|count-matches"
    r"|invert-match|only-matching|json|stats|quiet|multiline|multiline-dotall|pcre2|text|column|no-filename"
    r"|with-filename|vimgrep|trim|null|type-list|no-messages|no-config|pretty|unrestricted)",
    _RG_SHORT + r"[ABCmMjdgtTer]|--(glob|iglob|type|type-not|regexp|replace|color|sort|sortr|context"
    r"|after-context|before-context|max-count|max-depth|max-columns|threads)",
    pattern=_ANY, unpatterned=_RG_SHORT + r"e.*|--regexp(=.*)?|--files|--type-list",
    globs="named", opens="visible",
    opens_all=_RG_SHORT + r"[u.g].*|--hidden|--no-ignore.*|--unrestricted|--i?glob(=.*)?",
)  # fmt: skip
_SED_PART = r"([^/\\\[\n]|\\[^\n]|\[\^?([^]^[/\\\n]|\\[a-z])([^][/\\\n]|\\[a-z])*\])*"
"""Text between two slashes. sed ends no part at a slash within brackets: with an odd bracket, what looks like text
here could be a command `w` or `e` for sed."""
_SED_PLACE = rf"(\d+|\$|/{_SED_PART}/I?)"
_SED_COMMAND = (
    rf"({_SED_PLACE}(,({_SED_PLACE}|[+~]\d+))? *)?!?([pdq=]|s/{_SED_PART}/([^/\\\n]|\\[^\n])*/[gIip\d]*"
    rf"|s\|{_SED_PART.replace('/', '|')}\|([^|\\\n]|\\[^\n])*\|[gIip\d]*)"
)
_AWK = (
    r"(?![\s\S]*(system|getline|close|fflush|extension|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|ARG|@|\\\n))"
    r"([^{|]|\|\|)*(\{([^>|]|\|\|)*)?"
)
"""awk writes and runs programs by `>` within braces, by `|` and by its functions. `ARGV` names other files."""
_FIND = Program(
    r"-(print|print0|ls|empty|not|o|or|a|and|prune|xdev|mount|depth|readable|writable|executable|daystart|true"
    r"|false|quit|P|nouser|nogroup)",
    r"-(name|iname|path|ipath|wholename|type|xtype|maxdepth|mindepth|size|mtime|mmin|atime|amin|ctime|cmin|newermt"
    r"|newer|anewer|cnewer|perm|user|group|regex|iregex|regextype|links|inum|printf)",
    globs="suffix", ends=False,
)  # fmt: skip

READERS: dict[str, Program] = {
    "echo": _TEXT,
    "printf": Program(operand=_FORMAT, paths=False, globs="behind"),
    "pwd": Program("-[LP]", most=0, paths=False),
    **dict.fromkeys(["true", "false"], _TEXT),
    "sleep": Program(paths=False),
    "which": Program("-a", paths=False),
    "whoami": Program(most=0, paths=False),
    "id": Program("-[ugGnrz]+", paths=False),
    "uname": Program("-[asnrvmpio]+|--all", most=0, paths=False),
    "seq": Program(r"-w|--equal-width|-?[\d.]+|-s.+", "-s", paths=False),
    "basename": Program("-[az]+|-s.+|--suffix=.*", "-s", paths=False),
    "dirname": Program("-z", paths=False),
    "tr": Program("-[cCdst]+|--(delete|complement|squeeze-repeats|truncate-set1)", paths=False),
    "date": Program("-u|--utc", operand=r"\+.*", most=1, paths=False, globs="named", ends=False),
    "ls": Program(
        r"-[aAbBcCdfFgGhikmlnNopqQrRsStuUvxXZ1]+|--(colou?r|sort|time|time-style|format|ignore|hide)=.+|--(all"
        r"|almost-all|colou?r|human-readable|recursive|reverse|size|full-time|group-directories-first|classify"
        r"|directory|inode|no-group|numeric-uid-gid|si)"
    ),
    "cat": Program("-[AbeEnstTuv]+|--(number|number-nonblank|show-all|show-ends|show-tabs|squeeze-blank)"),
    "head": Program(r"-\d+|-[qvz]+|-[nc]-?\d+\w*|--(lines|bytes)=-?\d+\w*|--quiet|--verbose", "-[nc]"),
    "tail": Program(r"-\d+|-[qvz]+|-[nc][+-]?\d+\w*|--(lines|bytes)=[+-]?\d+\w*|--quiet|--verbose", "-[nc]"),
    "wc": Program("-[clLmw]+|--(lines|words|bytes|chars|max-line-length)"),
    "stat": Program("-[ft]+|--(format|printf)=.+|-c.+|--terse|--file-system", "-c|--format|--printf"),
    "file": Program("-[bhiN]+|--(brief|mime|mime-type|mime-encoding|no-dereference)", globs="named"),
    "cut": Program(
        "-[dfcb].+|-[snz]+|--(delimiter|fields|characters|bytes|output-delimiter)=.*|--complement", "-[dfcb]"
    ),
    "nl": Program(r"-[bhf](a|t|n)|-w\d+|-n(ln|rn|rz)|-s.+|-[iv]\d+", "-[bnwsiv]"),
    "rev": Program(),
    "tac": Program("-[br]+"),
    "hostname": Program(most=0, paths=False),
    "paste": Program("-[sz]+|-d.+", "-d"),
    "comm": Program("-[123z]+|--total|--nocheck-order"),
    "fold": Program(r"-[bs]+|-w\d+|-\d+", "-w"),
    "column": Program("-[txn]+|-[so].+", "-[so]"),
    "strings": Program(r"-a|-n\d+|-\d+|-t[odx]|--all", "-[nt]", operand=_UNLISTED, globs="named", ends=False),
    **dict.fromkeys(["md5sum", "sha1sum", "sha256sum"], _SUMS),
    "cmp": Program(r"-[bsl]+|--(silent|quiet|verbose|print-bytes)|-[ni]\d+", "-n"),
    "od": Program(r"-A\w|-t\w+|-[abcdfilosxv]+|-[Njw]\d+", "-[AtNj]"),
    "hexdump": Program(r"-[bcCdovx]+|-[ns]\d+", "-[ns]"),
    "realpath": Program("-[emsqz]+"),
    "readlink": Program("-[efmnqsvz]+"),
    "du": Program(
        r"-[abchkmsSx0]+|-d\d+|--max-depth=\d+|--(apparent-size|si|human-readable|summarize|total|all)"
        r"|--exclude=.*",
        "-d|--max-depth",
    ),
    "df": Program("-[ahHiklPT]+|--(total|si|human-readable|print-type|local|inodes)|--output(=[a-z,]+)?"),
    "sort": Program(
        r"-[bcCdfghimMnRrsuVz]*(k[0-9][0-9.,bdfgiMhnRrV]*|t.)?|--(key|field-separator|sort)=.+|--(unique|reverse"
        r"|numeric-sort|human-numeric-sort|version-sort|general-numeric-sort|ignore-case|check|stable"
        r"|zero-terminated)",
        "-[bcCdfghimMnRrsuVz]*[kt]",
        globs="none",
    ),
    "uniq": Program(
        r"-[cdDiuz]+|-[fsw]\d+|--(count|repeated|unique|ignore-case)", "-[fsw]", most=1, globs="none",
        options_first=True,
    ),
    "diff": Program(
        r"-[abBdeEinNpqstTuwy]+|-[UCW]\d+|--(unified|context|width)=\d+|--(unified|context|brief|side-by-side"
        r"|minimal|colou?r|ignore-case|ignore-all-space|ignore-space-change|ignore-blank-lines|strip-trailing-cr"
        r"|text|report-identical-files|suppress-common-lines|no-dereference)|--colou?r=\w+",
        "-[UCW]", globs="named", opens="visible",
    ),
    "sed": Program("-[nErs]+", pattern=rf"{_SED_COMMAND}( *; *{_SED_COMMAND})*", globs="named"),
    "tree": Program(r"-[adfpshDCiNntrvF]+|-L\d+|--(dirsfirst|noreport|du|gitignore)", "-[LIP]", globs="named"),
    **dict.fromkeys(["nproc", "uptime", "arch", "groups", "tty"], Program(most=0, paths=False)),
    "type": Program("-[aptP]+", operand=r"[\w.+-]+", paths=False),
    "test": Program("-[defhLrswxzn]|-nt|-ot|-ef", globs="named"),
    **dict.fromkeys(["sha512sum", "sha224sum", "sha384sum", "b2sum", "cksum"], _SUMS),
    "expand": Program(r"-t\d+|-i", "-t"),
    "xxd": Program(r"-[bgu]+|-[lsc]\d+", "-[lscg]", most=1, globs="none", options_first=True),
    "base64": Program(r"-i|-w\d+|--wrap=\d+", "-w", most=1),
    "free": Program("-[bkmghtw]+", most=0, paths=False),
    "locale": Program("-a", most=0, paths=False),
    "lsof": Program(
        rf"-[lnPtU]+|-[nPt]*i({_SOCKET})?|-sTCP:\w+|-p\d+", "-p", operand=rf"(?=.*:){_SOCKET}", paths=False
    ),
    "ss": Program("-[0-46aeHilmnoprstuwx]+", most=0, paths=False),
    "netstat": Program("-[46aeilnprstu]+", most=0, paths=False),
    "ifconfig": Program("-a", most=0, paths=False),
    **dict.fromkeys(["who", "w"], Program("-[abHmqrsTu]+", most=0, paths=False)),
    "lsblk": Program("-[abdfilmnprSt]+|-o.+", "-o", most=0, paths=False),
    "lscpu": Program("-[ae]+", most=0, paths=False),
    "nm": Program("-[aACDglnprSu]+", globs="named"),
    "readelf": Program("-[adeghlnrsStVW]+", globs="named"),
    # not -S: the source files that it shows are those whose names are in the file
    "objdump": Program(r"-[aCdDfhlprRstTwx]+|-[jM].+|--no-show-raw-insn", "-[jM]", globs="named"),
    "jq": Program(
        "-[rcSeMCjas]+|--(raw-output|compact-output|sort-keys|exit-status|slurp|null-input|tab|monochrome-output)",
        pattern=r"(?!.*(env|input|include|import|debug|stderr|modulemeta|halt|\$))[\w.\[\]\"|,:{}() ?=<>!+*'-]*",
        globs="named",
    ),
    "awk": Program("-F.+", "-F", pattern=_AWK, globs="named"),
    **dict.fromkeys(["grep", "egrep", "fgrep"], _GREP),
    "rg": _RG,
    "find": _FIND,
}  # fmt: skip

_WHOLE: dict[str, str] = {
    **dict.fromkeys(READERS, "--version|--help"),
    **dict.fromkeys(
        "python python3 gcc g++ clang make cmake ninja uv git bash zsh tmux tar rsync curl wget psql"
        " sqlite3 gh".split(),
        "--version|-V",
    ),
    "ssh": "-V",
    **dict.fromkeys(["ffmpeg", "ffprobe"], "-version"),
    **dict.fromkeys("node npm ruby perl php docker".split(), "--version|-v|-V"),
    "java": r"--?version",
    **dict.fromkeys(["pip", "pip3"], r"--version|-V|(list|freeze)( --(local|user))*|show( -f)?( \w[\w.-]*)+"),
    "ip": r"(-(br|brief|4|6) )*(a|addr|address|r|route|l|link)( (show|list|ls))?( dev [\w.-]+)?",
    "printenv": "PATH|HOME|SHELL|USER|PWD|LANG|TERM|TMPDIR|VIRTUAL_ENV",
    "getconf": r"-a|[A-Z_]+",
    "tput": "cols|lines|colors",
    "nvidia-smi": r"(-[Lq])?",
    **dict.fromkeys(["go", "openssl"], r"version"),
    "command": r"-[vV] [\w.+-]+",
    "set": r"[-+][eu]+|-([eu]*o|[eu]+ -o) (pipefail|errexit|nounset)",
}
"""Commands recognized by all their words. Not here: programs that a file of the project replaces by one of its own
even for this (`cargo`, `rustc`, `yarn`, `bazel`)."""

_LOG = (
    r"-\d+|-n\d+|-[pusiwbzq]+|-U\d+|-[SGL].+|-M\d*%?|--(no-)?(oneline|patch|decorate|color|merges|renames|graph"
    r"|abbrev-commit|color-moved|prefix|notes)|--no-(ext-diff|textconv)|--(stat|decorate|color|word-diff|date"
    r"|abbrev|diff-filter|since|after|before|until|author|committer|grep|skip|max-count|unified|color-moved"
    r"|relative|find-renames|min-parents|diff-algorithm|ignore-submodules)=.+|--(format|pretty)=(?![\s\S]*%G)[\s\S]*"
    r"|--(stat|shortstat|numstat|dirstat|name-only|name-status|summary|all|cached|staged|word-diff|first-parent"
    r"|reverse|follow|full-index|raw|minimal|patience|histogram|check|exit-code|quiet|merge-base|relative|tags"
    r"|branches|remotes|topo-order|date-order|left-right|cherry-pick|find-renames|root|ignore-all-space"
    r"|ignore-space-change|ignore-blank-lines|ancestry-path|cc|function-context|pickaxe-all|regexp-ignore-case"
    r"|extended-regexp|fixed-strings|source|parents|children|boundary|count|simplify-by-decoration|full-history"
    r"|cherry|cherry-mark|left-only|right-only|submodule|pretty)"
)
_REFLOG = (
    r"-\d+|-n\d+|-q|--(no-)?(decorate|color|abbrev-commit)|--(oneline|stat|shortstat|numstat|name-only|name-status"
    r"|all)|--(date|since|until|author|grep|max-count|skip)=.+|--(format|pretty)=(?![\s\S]*%G)[\s\S]*"
)
"""Without patches, which would show the files themselves."""
_LIST = (
    r"-[arv]+|-vv|--(show-current|list|all|remotes|no-color|column|merged|no-merged)|--sort=.+|--format=(?!.*%G).*"
)


_SETTING = r"(user|remote|branch|core|init|pull|push|merge|rebase|diff|submodule|commit)(\.[\w./-]+)?\.[\w-]+"
"""Settings of git that hold no password by themselves; the others may, as `http.extraheader` does."""
_SCOPE = "--(local|global|system|show-origin|show-scope)"
_GIT_GREP = r"-[aIhHlLnciwvEGFPoqWp]*"


def _git(
    options: str, valued: str = "", most: int = _MANY, opens: Opens = "visible", operand: str = _ANY
) -> Program:
    return Program(options, valued, operand, most, globs="named", opens=opens)


GIT_READERS: dict[str, Program] = {
    **dict.fromkeys("log diff show rev-list".split(), _git(_LOG, "-[nSGL]|--(skip|max-count|since|until|author)")),
    "grep": Program(
        _GIT_GREP + r"([ABCm]?\d+|e.+)?|--(cached|and|or|not|all-match|line-number|ignore-case|word-regexp|count"
        r"|files-with-matches|files-without-match|name-only|invert-match|extended-regexp|basic-regexp|perl-regexp"
        r"|fixed-strings|only-matching|heading|break|show-function|function-context|full-name|quiet|(no-)?color)"
        r"|--(after-context|before-context|context|max-count|max-depth)=\d+",
        _GIT_GREP + r"[ABCme]|--(after-context|before-context|context|max-count|max-depth)",
        pattern=_ANY, unpatterned=_GIT_GREP + "e.*", globs="named", opens="visible",
    ),
    "reflog": _git(_REFLOG, most=2, opens="", operand="show|HEAD"),
    "config": _git(f"--get|--get-all|{_SCOPE}", most=1, opens="", operand=_SETTING),
    "config get": _git(f"--all|{_SCOPE}", most=1, opens="", operand=_SETTING),
    "symbolic-ref": _git("-q|--(short|quiet)", most=1, opens=""),
    "notes list": _git("", most=1, opens=""),
    "diff-tree": _git(_LOG + "|-[rtmc]+|--no-commit-id", "-[SGL]"),
    "status": _git(
        r"-[sbvz]+|-u(no|normal|all)?|--(short|branch|long|show-stash|ahead-behind|no-renames|porcelain|ignored"
        r"|untracked-files)|--(porcelain|ignored|untracked-files|ignore-submodules)=\w+", opens="",
    ),
    "rev-parse": _git(
        r"-q|--(abbrev-ref|short|show-toplevel|verify|git-dir|git-common-dir|is-inside-work-tree|show-prefix"
        r"|show-cdup"
        r"|quiet|symbolic-full-name|all|branches|tags|is-bare-repository|absolute-git-dir)|--short=\d+", opens="",
    ),
    "ls-files": _git(
        r"-[cdmosuktvz]+|--(others|cached|modified|deleted|exclude-standard|stage|full-name|error-unmatch"
        r"|directory|ignored|unmerged)", opens="",
    ),
    "blame": _git(r"-L.+|-[wsfletnp]+|-[MC]\d*|--porcelain|--date=\w+|--show-email", "-L"),
    "describe": _git(r"--(tags|always|all|long|contains)|--(abbrev|match|exclude)=.+", opens=""),
    "shortlog": _git(r"-[sne]+|--(summary|numbered|email|all|no-merges)|--(since|until|group)=\S+", opens=""),
    "cat-file": _git("-[tpse]", most=1),
    "ls-tree": _git("-[rdtlz]+|--(name-only|name-status|full-tree|full-name|long)", opens=""),
    "name-rev": _git("--(tags|all|name-only|always)|--refs=.+", opens=""),
    "check-ignore": _git("-[vnq]+|--(no-index|verbose|quiet)", opens=""),
    "for-each-ref": _git(r"--(sort|format|count|points-at|contains|merged|no-merged)(=(?!.*%G).*)?", opens=""),
    "count-objects": _git("-[vH]+", most=0, opens=""),
    "stash show": _git("-p|--(stat|patch|name-only|name-status)", most=1),
    "merge-base": _git("-a|--(all|is-ancestor|fork-point|octopus)", opens=""),
    "branch": _git(_LIST, most=0, opens=""),
    "tag": _git(r"-l|--list|-n\d*|--sort=.+", most=0, opens=""),
    "remote": _git("-v", most=0, opens=""),
    "stash list": _git(r"--(oneline|stat|date=\w+)", most=0, opens=""),
    "worktree list": _git("--porcelain|-v", most=0, opens=""),
}  # fmt: skip
_OF_LANGUAGE = r"LC_[A-Z]+|LANG|TZ|NO_COLOR|CLICOLOR(_FORCE)?|FORCE_COLOR|COLUMNS|LINES"
"""Variables that change only how programs print; one that names a file could make them print it."""
_GIT_BEFORE = r"--no-pager|-P|--no-optional-locks|--literal-pathspecs"

GIT_CHANGES: dict[str, str] = {
    "add": r"-[AunvN]+|--(all|update|dry-run|verbose|intent-to-add)",
    "commit": r"-[amqsv]+|-m[\s\S]+|--(all|amend|no-edit|quiet|signoff|verbose|allow-empty)"
    r"|--(message|fixup|squash)=[\s\S]*",
    "fetch": r"-[ptqv]+|--(all|prune|tags|no-tags|quiet|verbose|dry-run|unshallow)|--depth=\d+",
    "pull": r"-[rqv]+|--(rebase|no-rebase|ff-only|no-ff|autostash|prune|quiet|verbose)",
    "push": r"-[unqv]+|--(set-upstream|tags|follow-tags|dry-run|quiet|verbose|porcelain)",
    "checkout": r"-[bBtq]|--(track|detach|quiet|no-track)",
    "switch": r"-[cdtq]|--(create|detach|track|quiet)",
    "merge": r"-[mqn]|--(no-ff|ff-only|squash|no-edit|abort|continue|quiet)|-m.+",
    "rebase": r"--(abort|continue|skip|autosquash|autostash|onto|root)|-q",
    "stash": r"-[mkuqp]+|--(include-untracked|keep-index|message|index|quiet)",
    "branch": r"-[admrvu]+|--(list|all|show-current|delete|move|set-upstream-to=.+)",
    "tag": r"-[amlnd]|--(annotate|message=.*|list)",
    "cherry-pick": r"-[xn]|--(continue|abort|skip|no-commit)",
    "revert": r"-n|--(no-edit|continue|abort|no-commit)",
    "rm": r"-[rq]+|--cached|--quiet",
    "mv": r"-[nvk]+",
    "restore": r"-[SWs]+|--(staged|worktree|source=.+)",
}
"""Options of other git verbs that neither write files elsewhere nor run programs."""


def reading(command: SimpleCommand) -> Reading | None:
    """Return what a simple command reads if it is known to be read-only; otherwise None."""
    if not all("=" in name or re.fullmatch(_OF_LANGUAGE, name) for name in command.assigns):
        return None
    if command.background or command.has_unseen_words or not command.words:
        return None
    name, words = command.argv[0], list(command.words[1:])
    if name == "[" and words and words[-1] == Word("]"):
        name, words = "test", words[:-1]
    if name in _WHOLE and re.fullmatch(_WHOLE[name], " ".join(command.argv[1:])):
        return Reading()
    if name == "git":
        while words and re.fullmatch(_GIT_BEFORE, words[0].text):
            words = words[1:]
        verb = next((n for n in (2, 1) if " ".join(word.text for word in words[:n]) in GIT_READERS), 0)
        reader = GIT_READERS.get(" ".join(word.text for word in words[:verb]))
        found = _judge(reader, words[verb:]) if reader else None
        return msgspec.structs.replace(found, by_git=True) if found else None
    if name == "cd":
        return Reading((words[0],), (words[0],)) if len(words) == 1 else None
    spec = READERS.get(name)
    return _judge(spec, words) if spec else None


def _judge(reader: Program, words: list[Word]) -> Reading | None:
    sorted_words = _sort(reader, words)
    if sorted_words is None:
        return None
    options, operands = sorted_words
    files = list(operands)
    judged = list(words)
    if len(operands) > reader.most or not all(re.fullmatch(reader.operand, word.text) for word in operands):
        return None
    if reader.pattern and not any(re.fullmatch(reader.unpatterned, option) for option in options):
        if not operands or not re.fullmatch(reader.pattern, operands[0].text):
            return None
        if not operands[0].glob:
            files.pop(0)
            judged = [word for word in words if word is not operands[0]]
    opens: Opens = "all" if any(re.fullmatch(reader.opens_all, option) for option in options) else reader.opens
    return Reading(tuple(files), tuple(judged), opens) if reader.paths else Reading(opens=opens)


def _sort(reader: Program, words: list[Word]) -> tuple[list[str], list[Word]] | None:
    """Split the words into options and operands; None if a word is not permitted."""
    options: list[str] = []
    operands: list[Word] = []
    ended = False
    rest = iter(words)
    for word in rest:
        if word.glob and not _glob_is_safe(reader, word, ended, bool(operands)):
            return None
        if operands and reader.options_first:
            return None
        if ended or not word.text.startswith("-") or word.text == "-":
            operands.append(word)
        elif word.text == "--" and reader.ends:
            ended = True
        elif reader.valued and re.fullmatch(reader.valued, word.text):
            options.append(word.text)
            value = next(rest, None)
            if (
                value is None
                or re.match(r"-\D", value.text)
                or (value.glob and not (reader is _FIND and _glob_is_safe(reader, value)))
            ):
                return None
        elif re.fullmatch(reader.options, word.text):
            options.append(word.text)
        else:
            return None
    return options, operands


def _glob_is_safe(reader: Program, word: Word, ended: bool = False, is_behind: bool = False) -> bool:
    """Return True if the names a glob may match cannot be taken for harmful options."""
    if reader.globs in ("none", "behind"):
        return is_behind and reader.globs == "behind"
    if reader.globs == "any" or ended or word.text[0] not in "*?[":
        return True
    return reader.globs == "suffix" and re.search(r"\.\w+$", word.text) is not None


def git_extras_are_known(argv: tuple[str, ...], named: str) -> bool:
    """Return True if every option of a git command is harmless by the tables or appears in the rule that allows
    it."""
    written = named.split()
    place = next((at for at, word in enumerate(argv) if at and not word.startswith("-")), len(argv))
    if any(word not in written and not re.fullmatch(_GIT_BEFORE, word) for word in argv[1:place]):
        return False
    verb = argv[place] if place < len(argv) else ""
    reader = GIT_READERS.get(verb, Program())
    known = "|".join(filter(None, (GIT_CHANGES.get(verb), reader.options, reader.valued)))
    late = [
        word
        for before, word in zip(argv[place:], argv[place + 1 :], strict=False)
        if word.startswith("-") and not (verb == "commit" and before in ("-m", "-am"))
    ]
    return all(word in ("-", "--", *written) or re.fullmatch(known, word) for word in late)
