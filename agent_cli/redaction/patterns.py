"""What secrets look like, as data: tokens that announce themselves by how they begin, and values that are told by
what stands before them.

Apart from what finds them, so that a new kind of token is one row here. Every pattern stays on
one line and inside one run of characters without a delimiter (see `DELIMITERS`); that is what lets a stream
decide about a token as soon as the delimiter behind it has come. Private key blocks are the one exception.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from .span import entropy

DELIMITERS = " \t\r\n\f\v\"'`<>{}()[],;|\\"
"""Where a token ends."""
LONGEST = 4096
"""Characters of a token that are looked at."""
LONGEST_JUDGED = 512
"""And by which it is judged."""
_LOWEST_ENTROPY = 2.8
"""Bits per character; below lie words, repetitions and placeholders."""


_LETTER_OR_DIGIT = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_DIGIT = re.compile("[0-9]")
_PIECES = re.compile(r"[^A-Za-z0-9]+")
_MARKS = re.compile(r"[!#%^&*~]|(?<=\w)@(?![\w-]+\.\w{2,})")
_CODE = re.compile(r"==(?!\Z)|\?\?|\?\.|&&|->|::")
_NO_VALUE = re.compile(
    r"[/.~$%@&*=<+-]|.*://|(?:your|example|sample|dummy|fake|placeholder|change|replace|insert|todo|null|none"
    r"|undefined|xxx|process\.env|os\.environ|env\.|secrets\.)",
    re.I,
)


def looks_random(value: str) -> bool:
    """Return whether a value is more likely a secret than a word, a name of code, a path, a date or a
    placeholder."""
    if not _DIGIT.search(value) or value.isdigit():
        return False
    if _NO_VALUE.match(value) or _CODE.search(value):
        return False
    switches = any(len(_LETTER_OR_DIGIT.findall(piece)) >= 3 for piece in _PIECES.split(value))
    marked = _MARKS.search(value) is not None and any(map(str.isalpha, value))
    return (switches or marked) and entropy(value) > _LOWEST_ENTROPY


def is_token(text: str) -> bool:
    """Return whether what has the shape of a token is one, and no placeholder such as `ghp_xxxx…`."""
    return entropy(text) > _LOWEST_ENTROPY


_PLACEHOLDER_PASSWORD = re.compile(
    r"(?:(?:my|your|some|the)[\w-]*|pass(?:word|wd)?|pwd|secret|token|x+|\*+|\.+|\$.*|%.*|example)$", re.I
)


def is_password(text: str) -> bool:
    """Return whether a password in an address is one, and no placeholder."""
    return not _PLACEHOLDER_PASSWORD.match(text)


def _is_credential(text: str) -> bool:
    """Return whether what follows the scheme in a header is one, and no word or placeholder."""
    mixed = any(c.isdigit() for c in text) or (any(c.isupper() for c in text) and any(c.islower() for c in text))
    return mixed and is_token(text) and not _NO_VALUE.match(text)


def _is_aws_secret(text: str) -> bool:
    return len(text) == 40 and is_token(text) and all(c.isalnum() or c in "/+" for c in text)


class Shape(NamedTuple):
    """A kind of token."""

    name: str
    starts: tuple[str, ...]
    """How it begins, letter by letter."""
    whole: re.Pattern[str]
    """Matched from the start on; group 1, where there is one, is the secret part."""
    judge: Callable[[str], bool]
    """Whether what has the shape is one."""
    inside: bool = False
    """It may follow directly upon a letter or digit."""


def _shape(name: str, starts: str, rest: str, judge: Callable[[str], bool] = is_token) -> Shape:
    """`starts` are separated by blanks; `rest` follows any of them."""
    words = tuple(starts.split())
    return Shape(name, words, re.compile(f"(?:{'|'.join(map(re.escape, words))}){rest}"), judge)


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
    # By the provider's documentation, or the rule of that name in gitleaks (config/gitleaks.toml) or trufflehog
    # (pkg/detectors): dockerhub v2 of trufflehog; "oat" are those of organizations.
    _shape("Docker token", "dckr_pat_ dckr_oat_", f"{_WORD}{{24{_ANY}"),
    _shape("Atlassian token", "ATATT3 ATCTT3", f"[A-Za-z0-9_=-]{{60{_ANY}"),  # gitleaks: atlassian-api-token
    _shape("Notion token", "ntn_", f"[A-Za-z0-9]{{40{_ANY}"),  # gitleaks: notion-api-token
    # developers.notion.com: the form of tokens made before ntn_
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
        re.compile(r"://[^\s/:@?#\"'`<>{}()\[\],;|\\]{0,128}:([^\s/@\"'`<>{}()\[\],;|\\]{3,256})@"),
        is_password,
        inside=True,
    ),
)

DISCORD_TAIL = re.compile(f"\\.{_WORD}{{6}}\\.{_WORD}{{27,64}}")
DISCORD_HEAD = re.compile(rf"(?:^|(?<!{_WORD}))[MNO]{_WORD}{{23,27}}\Z")
DISCORD_HEAD_LENGTH = 28
TELEGRAM_TAIL = re.compile(f":AA{_WORD}{{33}}(?!{_WORD})")
TELEGRAM_HEAD = re.compile(r"(?<![A-Za-z0-9_])\d{8,10}\Z")
TELEGRAM_HEAD_LENGTH = 11

KEY_BEGINS = "-----BEGIN"
_BEGIN = r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_PREFIX = r"[^\n]{0,120}?"  # line numbers, file names, marks of a diff
_TRAIL = r"[ \t\r\"',+\\n]{0,8}"  # of a string in code
_LINE = rf"\n{_PREFIX}[A-Za-z0-9+/=]{{40,}}+{_TRAIL}(?=\n|\Z)"
_ASIDE = (
    rf"\n{_PREFIX}(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash): [^\n]{{0,200}}(?=\n)"
    r"|\n[ \t\r\d:|+>-]{0,24}(?=\n)"
)
KEY_BEGIN = re.compile(_BEGIN)
KEY_BLOCK = re.compile(
    rf"{_BEGIN}(?:(?:\\[nr]|[A-Za-z0-9+/= ])*{_END}|(?:\\[nr]|[A-Za-z0-9+/=]){{24,}}"
    rf"|{_TRAIL}(?:{_ASIDE}){{0,4}}{_LINE}(?:{_LINE}|{_ASIDE})*(?:(?:\n[^\n]{{0,200}}){{0,2}}?\n{_PREFIX}{_END})?"
    rf"|{_TRAIL}(?:\n[^\n]{{0,200}}){{1,3}}?\n{_PREFIX}{_END})"
)
"""A private key, on one line or on several; without its end, as far as its lines look like one."""
KEY_END = re.compile(rf"{_END}\Z")
LINES_BEHIND_KEY = 4
"""Complete lines behind a block without an end, after which it can grow no more."""
LINES_OF_NO_KEY = 8
"""Complete lines behind a beginning without a body, after which it is none."""


def begins() -> str:
    """Return a pattern for where a token may begin in a text that is not at its end yet: whole starts, and the
    beginnings of starts at the very end."""
    edge = r"(?:(?<![A-Za-z0-9_][\s\S])|(?<=[0-9\[][mK][\s\S])|(?<=\\[nrt][\s\S]))"
    at_edge: dict[str, list[str]] = {letter: [r"[A-Za-z0-9_-]{0,27}(?:\.|\Z)"] for letter in "MNO"}  # Discord
    at_edge |= {digit: [r"\d{0,9}\Z|\d{7,9}:"] for digit in "0123456789"}  # Telegram
    free: dict[str, list[str]] = {}
    for shape in SHAPES:
        for word in shape.starts:
            (free if shape.inside else at_edge).setdefault(word[0], []).append(_or_beginning(word[1:]))
    free.setdefault(KEY_BEGINS[0], []).append(_or_beginning(KEY_BEGINS[1:]))
    rows = [f"{re.escape(first)}{edge}(?:{'|'.join(rests)})" for first, rests in at_edge.items()]
    rows += [f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in free.items()]
    return "|".join(rows)  # each row begins with a letter, which makes the search fast


def _or_beginning(word: str) -> str:
    """`word`, or any beginning of it, none included, at the end of the text."""
    nested = ""
    for char in reversed(word[:-1]):
        nested = f"(?:{re.escape(char)}{nested})?"
    return rf"{re.escape(word)}|{nested}\Z"


class Context(NamedTuple):
    """A value that counts as a secret for what stands before it on its line."""

    words: tuple[str, ...]
    """In lower case; one of them is in what stands before."""
    before: re.Pattern[str]
    """Matched from the word on, up to the value."""
    name: str
    """What the value is called; empty: by the name it is assigned to."""
    judge: Callable[[str], bool]
    """Whether a value that stands there is a secret."""


_QUOTES = r"(?:\\?[\"']\]?)?"
_VALUE = r"[^\s\"'`<>{}()\[\],;|\\]"
JUDGED = re.compile(rf"{_VALUE}{{8,{LONGEST_JUDGED}}}+")
"""As much of a value as it is judged by."""
VALUE = re.compile(rf"({_VALUE}{{8,{LONGEST}}}+)(?![(\[{{])")
_SEPARATOR = rf"{_QUOTES}[ \t]{{0,3}}(?::=|=>|[:=])[ \t]{{0,3}}\\?[\"'`]?"

_NAME = r"[A-Za-z_-]{5,12}[A-Za-z0-9_.-]{0,30}"

_WORDS = (
    "passw", "passphrase", "secret", "token", "api_key", "apikey", "api-key", "access_key", "accesskey",
    "access-key", "private_key", "privatekey", "private-key", "credential", "account_key", "accountkey",
)  # fmt: skip

ALWAYS = (
    Context(
        ("authorization",),
        re.compile(rf"authorization{_SEPARATOR}(?:bearer|basic|token|apikey)[ \t]{{1,3}}", re.I),
        "Authorization header",
        _is_credential,
    ),
    Context(("bearer",), re.compile(r"bearer[ \t]{1,3}", re.I), "Authorization header", looks_random),
    Context(("x-api-key",), re.compile(rf"x-api-key{_SEPARATOR}", re.I), "x-api-key header", looks_random),
    Context(
        ("secret_access_key", "secretaccesskey"),
        re.compile(rf"secret_?access_?key{_SEPARATOR}", re.I),
        "AWS secret key",
        _is_aws_secret,
    ),
    # As files of environment variables and shells write it; code hardly ever does.
    Context(_WORDS, re.compile(r"[A-Z_]{5,12}[A-Z0-9_]{0,30}=\\?[\"']?"), "", looks_random),
    # As JSON and YAML write it: in quotes behind a colon. In code that is a literal, never a call or a name.
    Context(_WORDS, re.compile(rf"{_NAME}\\?[\"']?[ \t]{{0,3}}:[ \t]{{0,3}}\\?[\"']"), "", looks_random),
)
ASSIGNED = Context(_WORDS, re.compile(rf"{_NAME}{_SEPARATOR}"), "", looks_random)
NO_SECRET_NAME = re.compile(r"public|page|cursor|continuation|next[_-]?token", re.I)
"""What a name has whose value is none: public keys, and what asks for the next part of a list."""
BEFORE_NAME = re.compile(r"(?:[A-Za-z0-9_.]|(?<=[A-Za-z0-9])-){0,40}\Z")
LONGEST_BEFORE = 40
AFTER_NAME = re.compile(r"[A-Za-z0-9_.-]*")
LONGEST_CONTEXT = 160
"""Characters that a context, its name included, has at most."""
