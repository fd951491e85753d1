"""Detect tokens with a recognizable prefix; a new kind of token is one row. Separate from `patterns`, which is
slow to load, because variables are checked against these at every start."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from agent_cli.protocol.lazy_regex import lazy_regex

from .span import Span, entropy

LONGEST = 4096
"""Maximum number of characters examined of a token."""
LONGEST_JUDGED = 512
"""Maximum number of characters by which it is judged."""
_LOWEST_ENTROPY = 2.8
"""In bits per character; words, repetitions and placeholders are below."""


_LETTER_OR_DIGIT = lazy_regex(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_DIGIT = lazy_regex("[0-9]")
_PIECES = lazy_regex(r"[^A-Za-z0-9]+")
_MARKS = lazy_regex(r"[!#%^&*~]|(?<=\w)@(?![\w-]+\.\w{2,})")
_CODE = lazy_regex(r"==(?!\Z)|\?\?|\?\.|&&|->|::")
NO_VALUE = lazy_regex(
    r"[/.~$%@&*=<+-]|.*://|(?:your|example|sample|dummy|fake|placeholder|change|replace|insert|todo|null|none"
    r"|undefined|xxx|process\.env|os\.environ|env\.|secrets\.)",
    re.I,
)


def looks_random(value: str) -> bool:
    """Return True if a value is more likely a secret than a word, an identifier, a path, a date or a
    placeholder."""
    if not _DIGIT.search(value) or value.isdigit():
        return False
    if NO_VALUE.match(value) or _CODE.search(value):
        return False
    switches = any(len(_LETTER_OR_DIGIT.findall(piece)) >= 3 for piece in _PIECES.split(value))
    marked = _MARKS.search(value) is not None and any(map(str.isalpha, value))
    return (switches or marked) and entropy(value) > _LOWEST_ENTROPY


def is_token(text: str) -> bool:
    """Return True if text with the shape of a token is not a placeholder such as `ghp_xxxx…`."""
    return entropy(text) > _LOWEST_ENTROPY


_PLACEHOLDER_PASSWORD = lazy_regex(
    r"(?:(?:my|your|some|the)[\w-]*|pass(?:word|wd)?|pwd|secret|token|x+|\*+|\.+|\$.*|%.*|example)$", re.I
)


def is_password(text: str) -> bool:
    """Return True if a password in a URL is not a placeholder."""
    return not _PLACEHOLDER_PASSWORD.match(text)


class Shape(NamedTuple):
    """A kind of token."""

    name: str
    starts: tuple[str, ...]
    """Its literal prefixes."""
    pattern: str
    """Matches from the prefix on; group 1, if present, is the secret part."""
    judge: Callable[[str], bool]
    """Returns True if text of this shape is a token."""
    inside: bool = False
    """True if it may directly follow a letter or digit."""

    @property
    def whole(self) -> re.Pattern[str]:
        """The pattern, compiled when first needed: all together take 10 ms at every start."""
        return _compiled(self.pattern)


_compiled = cache(re.compile)


def _shape(name: str, starts: str, rest: str, judge: Callable[[str], bool] = is_token) -> Shape:
    """Return a shape; `starts` are separated by spaces, and `rest` follows any of them."""
    words = tuple(starts.split())
    return Shape(name, words, f"(?:{'|'.join(map(re.escape, words))}){rest}", judge)


_ANY = f",{LONGEST}}}"
_WORD = "[A-Za-z0-9_-]"

SHAPES: tuple[Shape, ...] = (
    _shape("Anthropic key", "sk-ant-", f"{_WORD}{{20{_ANY}"),
    _shape("OpenRouter key", "sk-or-", f"{_WORD}{{32{_ANY}"),
    _shape("API key", "sk-", f"(?!ant-|or-){_WORD}{{20{_ANY}", looks_random),
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", f"[A-Za-z0-9]{{36{_ANY}"),
    _shape("GitHub token", "github_pat_", f"[A-Za-z0-9_]{{40{_ANY}"),
    _shape(
        "GitLab token",
        "glpat- glrt- gldt- glptt- glagent- gloas- glcbt- glft- glimt- glsoat- glffct- glrtr-",
        f"[A-Za-z0-9_.-]{{18{_ANY}",
    ),
    _shape("AWS key id", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}(?![A-Za-z0-9_])"),
    _shape("Google key", "AIza", f"{_WORD}{{35}}(?!{_WORD})"),
    _shape("Google token", "ya29. GOCSPX-", f"{_WORD}{{24{_ANY}"),
    _shape("Slack token", "xoxa- xoxb- xoxe- xoxe. xoxp- xoxr- xoxs- xapp-", f"[A-Za-z0-9.-]{{10{_ANY}"),
    _shape("Slack webhook", "hooks.slack.com/services/", f"([A-Za-z0-9/]{{30{_ANY})"),
    _shape("Discord webhook", "discord.com/api/webhooks/", f"(\\d{{8,24}}/{_WORD}{{40{_ANY})"),
    _shape("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", f"[0-9A-Za-z]{{16{_ANY}"),
    _shape("Stripe secret", "whsec_", f"[0-9A-Za-z+/]{{24{_ANY}"),
    _shape("npm token", "npm_", "[A-Za-z0-9]{36}(?![A-Za-z0-9_])"),
    _shape("PyPI token", "pypi-", f"{_WORD}{{50{_ANY}"),
    _shape("Hugging Face token", "hf_", f"[A-Za-z0-9]{{30{_ANY}"),
    _shape("SendGrid key", "SG.", f"{_WORD}{{20,64}}\\.{_WORD}{{30{_ANY}"),
    _shape("Twilio key", "SK AC", "[0-9a-f]{32}(?![A-Za-z0-9_])"),
    _shape("JWT", "eyJ", f"{_WORD}{{8{_ANY}\\.eyJ{_WORD}{{8{_ANY}\\.{_WORD}{{8{_ANY}"),
    _shape("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    _shape("Vault token", "hvs. hvb. hvr.", f"{_WORD}{{24{_ANY}"),
    _shape("Databricks token", "dapi", "[0-9a-f]{32}(?![A-Za-z0-9_])"),
    _shape("Shopify token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    _shape("xAI key", "xai-", f"[A-Za-z0-9]{{40{_ANY}"),
    _shape("Groq key", "gsk_", f"[A-Za-z0-9]{{40{_ANY}"),
    _shape("API key", "pplx- nvapi- tvly- csk-", f"{_WORD}{{28{_ANY}", looks_random),
    _shape("Replicate token", "r8_", f"[A-Za-z0-9]{{30{_ANY}"),
    _shape("Grafana token", "glsa_", f"[A-Za-z0-9_]{{32{_ANY}"),
    _shape("Linear key", "lin_api_", f"[A-Za-z0-9]{{32{_ANY}"),
    _shape("Sentry token", "sntrys_ sntryu_", f"[A-Za-z0-9_=+/]{{40{_ANY}"),
    # From the provider's documentation, or the rule of that name in gitleaks (config/gitleaks.toml) or trufflehog
    # (pkg/detectors): dockerhub v2 of trufflehog; "oat" are those of organizations.
    _shape("Docker token", "dckr_pat_ dckr_oat_", f"{_WORD}{{24{_ANY}"),
    _shape("Atlassian token", "ATATT3 ATCTT3", f"[A-Za-z0-9_=-]{{60{_ANY}"),  # gitleaks: atlassian-api-token
    _shape("Notion token", "ntn_", f"[A-Za-z0-9]{{40{_ANY}"),  # gitleaks: notion-api-token
    # developers.notion.com: the format of tokens created before ntn_
    _shape("Notion token", "secret_", "[A-Za-z0-9]{43}(?![A-Za-z0-9_-])", looks_random),
    _shape("Figma token", "figd_ figu_ figo_", f"{_WORD}{{32{_ANY}"),  # trufflehog: figmapersonalaccesstoken
    _shape("Fly token", "fo1_", f"{_WORD}{{40{_ANY}"),  # gitleaks: flyio-access-token, this row and the next
    _shape("Fly token", "fm1a_ fm1r_ fm2_", f"[A-Za-z0-9+/=_-]{{80{_ANY}"),
    _shape(
        "Mailgun key", "key-", "[0-9a-z]{32}(?![A-Za-z0-9_-])", looks_random
    ),  # gitleaks: mailgun-private-api-token
    _shape("New Relic key", "NRAK- NRII-", f"[A-Za-z0-9-]{{27{_ANY}"),  # gitleaks: new-relic-user-api-key
    _shape("Terraform token", "atlasv1.", f"[A-Za-z0-9_=-]{{60{_ANY}"),  # gitleaks: hashicorp-tf-api-token
    _shape("Pulumi token", "pul-", "[0-9a-f]{40}(?![A-Za-z0-9_])"),  # gitleaks: pulumi-api-token
    _shape("Supabase token", "sbp_", f"[0-9a-z_]{{40{_ANY}"),  # trufflehog: supabasetoken
    _shape("Supabase key", "sb_secret_", f"{_WORD}{{20{_ANY}"),  # supabase.com/docs/guides/api/api-keys
    # vercel.com/changelog/new-token-formats-and-secret-scanning, and the tokens of its file store
    _shape("Vercel token", "vcp_ vci_ vca_ vcr_ vck_", f"[A-Za-z0-9_]{{24{_ANY}", looks_random),
    _shape("Vercel token", "vercel_", f"[A-Za-z0-9_]{{24{_ANY}", looks_random),
    # learn.microsoft.com: connection strings of storage accounts and of service buses
    _shape("Azure key", "AccountKey= SharedAccessKey=", f"([A-Za-z0-9+/]{{40{_ANY}={{0,2}})"),
    _shape("age key", "AGE-SECRET-KEY-1", "[0-9A-Z]{40,80}"),
    Shape(
        "password in a URL",
        ("://",),
        r"://[^\s/:@?#\"'`<>{}()\[\],;|\\]{0,128}:([^\s/@\"'`<>{}()\[\],;|\\]{3,256})@",
        is_password,
        inside=True,
    ),
)

DISCORD_TAIL = lazy_regex(f"\\.{_WORD}{{6}}\\.{_WORD}{{27,64}}")
DISCORD_HEAD = lazy_regex(rf"(?:^|(?<!{_WORD}))[MNO]{_WORD}{{23,27}}\Z")
DISCORD_HEAD_LENGTH = 28
TELEGRAM_TAIL = lazy_regex(f":AA{_WORD}{{33}}(?!{_WORD})")
TELEGRAM_HEAD = lazy_regex(r"(?<![A-Za-z0-9_])\d{8,10}\Z")
TELEGRAM_HEAD_LENGTH = 11

SHORTEST = 15
"""Minimum number of characters of a token, its prefix included."""
_RUN = lazy_regex(rf"(?<![A-Za-z0-9_.=+/-])[A-Za-z0-9_.=+/-]{{{SHORTEST},}}")
"""The runs of characters that can contain a token."""
_MARKS_OF_STARTS = ("://", "_", "-", ".", "=", "")


def _by_mark() -> tuple[tuple[str, tuple[tuple[str, Shape], ...]], ...]:
    """Return the prefixes grouped by a character in them, so that a text without it is not searched for them."""
    rest = [(start, shape) for shape in SHAPES for start in shape.starts]
    groups = []
    for mark in _MARKS_OF_STARTS:
        groups.append((mark, tuple(each for each in rest if mark in each[0])))
        rest = [each for each in rest if mark not in each[0]]
    return tuple(groups)


_TOKENS = _by_mark()


def _present(text: str) -> Iterator[tuple[str, Shape]]:
    """Yield the prefixes in a text that may begin a token."""
    runs = " ".join(_RUN.findall(text))
    for mark, group in _TOKENS:
        if mark == "://":  # runs have no colon
            yield from group if mark in text else ()
        elif mark in runs:
            yield from (each for each in group if each[0] in runs)


def tokens(text: str, *, judged: bool = True) -> Iterator[Span]:
    """Yield tokens recognized by their shape; without `judged`, also placeholders of that shape."""
    for start, shape in _present(text):
        at = text.find(start)
        while at >= 0:
            match = shape.whole.match(text, at) if shape.inside or _at_edge(text, at) else None
            if match:
                group = 1 if shape.whole.groups else 0
                first, last = match.span(group)
                if not judged or shape.judge(text[first : min(last, first + LONGEST_JUDGED)]):
                    yield Span(first, last, shape.name)
            at = text.find(start, match.end() if match else at + 1)
    yield from _around(text, DISCORD_TAIL, DISCORD_HEAD, DISCORD_HEAD_LENGTH, "Discord token")
    if ":AA" in text:
        length = TELEGRAM_HEAD_LENGTH
        yield from _around(text, TELEGRAM_TAIL, TELEGRAM_HEAD, length, "Telegram token")


def _around(text: str, tail: re.Pattern[str], head: re.Pattern[str], length: int, name: str) -> Iterator[Span]:
    """Yield tokens whose middle is rare and whose start is common."""
    for match in tail.finditer(text):
        first = max(0, match.start() - length - 1)
        before = head.search(text[first : match.start()])
        if before and is_token(match.group()):
            yield Span(first + before.start(), match.end(), name)


def _at_edge(text: str, at: int) -> bool:
    r"""Return True if a token may start here: not inside a word, unless the word is the end of a colour code or of
    `\n`."""
    if at == 0:
        return True
    before = text[at - 1]
    if not (before.isascii() and before.isalnum()) and before != "_":
        return True
    if at < 2:
        return False
    return (before in "mK" and text[at - 2] in "0123456789[") or (before in "nrt" and text[at - 2] == "\\")
