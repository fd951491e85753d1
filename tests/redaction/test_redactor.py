"""Secrets are masked, whole or in pieces; what is none stays as it was."""

import base64
import json
import random
import re
import re._parser as re_parser
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.redaction import patterns, token_shapes
from agent_cli.redaction.redactor import PLACEHOLDER, Redactor, is_worth_masking
from tests.costs import assert_linear
from tests.fuzz import LEVEL, tries
from tests.redaction.secrets import ALNUM, join, key_block, some, tokens
from tests.rows import each_row

KNOWN = {
    "DEPLOY": some(ALNUM, 24, "deploy"),
    "PHRASE": "correct horse battery 42 staple",
    "ODD": 'pä"ss/w=rd&' + some(ALNUM, 6, "odd"),
    "TWICE": "ab1ab1ab1ab2ab1",
    "LINES": f"{some(ALNUM, 30, 'l1')}\n{some(ALNUM, 30, 'l2')}",
}
TOKENS = tokens()
REDACTOR = Redactor(KNOWN)
NOBODY = Redactor()
SHA = "3f786850e387550fdab836ed7e6dc881de23001b"

HARMLESS = [
    f"commit {SHA}",
    f"sha256:{SHA}{SHA[:24]}",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    '"integrity": "sha512-' + some(ALNUM + "+/", 86, 1) + '=="',
    f'resolved "https://registry.example.org/left-pad/-/left-pad-1.3.0.tgz#{SHA}"',
    "h1:" + some(ALNUM + "+/", 43, 2) + "= go.sum",
    "token = get_token()",
    "token = os.environ['TOKEN']",
    'api_key = os.environ.get("OPENAI_API_KEY")',
    "password = config.database.password",
    "self._secret = secret_for(user_id2)",
    "const token = process.env.GITHUB_TOKEN;",
    "const apiKey = await vault.read('path/v2')",
    '"nextPageToken": "CAUQ1b2c3d4e5"',
    '"continuation_token": "a1b2c3d4e5f6"',
    "secret_santa_2024_gift_exchange_list_for_everybody_in_it",
    "key-value-store-with-32-characters-or-so",
    "vercel_deployment_protection_bypass_header_name",
    "from atlasv1.client import Session",
    "if (token ==a1b2c3d4e5f6) {",
    "password: ${{ secrets.DEPLOY_PASSWORD_2 }}",
    "PASSWORD=$DB_PASSWORD_V2",
    "PASSWORD=${DB_PASSWORD:-none}",
    "export GITHUB_TOKEN=$(gh auth token)",
    "API_KEY=your-api-key-1234-here",
    "API_KEY=<insert-key-9-here>",
    "API_KEY=xxxxxxxxxxxxxxxxxxxxxx",
    "SECRET_KEY=changeme",
    "token: true",
    "max_tokens: 128000000",
    "tokens_used=18446744073709",
    'tokenizer = "meta-llama/Llama-3.2-1B"',
    'tokenizer: "cl100k_base"',
    "secretName: db-credentials-v2",
    "secret_file: /run/secrets/db_password_2",
    "token_url = https://example.com/oauth2/v1/token",
    "access_token_expiry: 2026-01-02T03:04:05Z",
    "publicKeyToken=b77a5c561934e089",
    "class TokenType(Enum): ACCESS = 1",
    "def password_hash(password: str, rounds: int = 12) -> bytes:",
    "if token is None: raise MissingToken",
    "headers = {'Authorization': f'Bearer {token}'}",
    'headers["x-api-key"] = self._route.api_key',
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer YOUR_ACCESS_TOKEN",
    "the bearer authentication_required_for_all_endpoints",
    "https://example.com/path?x=1",
    "http://localhost:8080/",
    "git@github.com:owner/repo.git",
    "ssh://git@github.com:22/owner/repo.git",
    "postgres://user:password@localhost/db",
    "postgres://$USER:$PASS@host/db",
    "https://user@example.com/",
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 4).decode(),
    "\n".join(some(ALNUM + "+/", 76, number) for number in range(20)),
    "ghp_" + "x" * 36,
    "sk-" + "a" * 30,
    "sk-loading-spinner-container-large-dark",
    "task-force-disk-usage-and-risk-assessment-report",
    "AKIA is how a key id begins",
    "npm_config_registry=https://registry.example.org",
    "hf_hub_download(repo_id, filename)",
    "xoxb- tokens are for bots",
    "eyJ is how a JWT begins",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    '{"pattern": "' + join("-----BEGIN RSA PRIV", "ATE KEY-----") + '"}',
    join("A key begins with -----BEGIN PRIV", "ATE KEY-----") + "\n\nand then\nthere are\nlines.",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + some(ALNUM, 43, 5) + " me@host",
    "def test_basic_auth_v2(self) -> None: ...",
    "+++ b/src/secrets/token_store.py",
    "@@ -1,7 +1,9 @@ def token(self):",
    "SKIP = 1; ACCEPTED = 2",
    "M.N.O. Smith, see Notes.2024.something-else-entirely-long-words",
    "2026-11-21T17:15:10.123456Z INFO request_id=01HZX7 status=200",
    "0x" + SHA,
    "color: #a1b2c3; margin: 0 auto",
    "torch==2.9.1+cu128",
    "--hash=sha256:" + SHA + SHA[:24],
    'ETag: W/"' + SHA + '"',
    "CSRF token missing or incorrect",
    "password=password",
    'assert credentials == {"user": "a"}',
    "token := parser.next()",
    "secret = b64decode(data)[1:]",
]  # fmt: skip


@each_row("kind", TOKENS)
def test_a_token_is_masked_by_its_shape(kind: str) -> None:
    text, token = TOKENS[kind]
    masked = NOBODY.mask(text)
    assert token not in masked and PLACEHOLDER.search(masked)
    assert NOBODY.mask(masked, assignments=True) == masked


def test_there_are_enough_samples() -> None:
    assert len(TOKENS) >= 40 and len(HARMLESS) >= 60


@each_row("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert REDACTOR.mask(text, assignments=True) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("db_password=tr0ub4dor&3x", "db_password=[masked: db_password]"),
        ("api_key = 'q8Zr2Lm9Xw4'", "api_key = '[masked: api_key]'"),
        ("password: Str0ng!Pass99 # mine", "password: [masked: password] # mine"),
        ("my.token := a1b2c3d4e5f6", "my.token := [masked: my.token]"),
    ],
)
def test_an_assigned_secret_is_masked_when_asked_for(text: str, masked: str) -> None:
    assert NOBODY.mask(text, assignments=True) == masked
    assert NOBODY.mask(text) == text


@each_row(
    ("text", "masked"),
    [
        ("DB_PASSWORD=tr0ub4dor&3x", "DB_PASSWORD=[masked: DB_PASSWORD]"),
        ("+export API_KEY='q8Zr2Lm9Xw4'", "+export API_KEY='[masked: API_KEY]'"),
        ('  "clientSecret": "8f14e45fceea167a",', '  "clientSecret": "[masked: clientSecret]",'),
        ('{"client_secret":"8f14e45fceea167a"}', '{"client_secret":"[masked: client_secret]"}'),
        (r"{\"token\": \"a1b2c3d4e5f6\"}", r"{\"token\": \"[masked: token]\"}"),
        ('  db_password: "tr0ub4dor&3x"', '  db_password: "[masked: db_password]"'),
        ("- token: 'a1b2c3d4e5f6'", "- token: '[masked: token]'"),
        ("ACCOUNT_KEY=" + some(ALNUM, 86, 4) + "==", "ACCOUNT_KEY=[masked: ACCOUNT_KEY]"),
        ("    12\tMY_SECRET=8f14e45fceea167a # x", "    12\tMY_SECRET=[masked: MY_SECRET] # x"),
    ],
)
def test_an_assignment_as_files_of_settings_write_it_is_masked_always(text: str, masked: str) -> None:
    assert NOBODY.mask(text) == masked


@pytest.mark.parametrize("name", ["DEPLOY", "PHRASE", "ODD"])
def test_a_known_value_is_masked_however_it_is_written(name: str) -> None:
    value = KNOWN[name]
    data = value.encode()
    for form in (value, quote(value, safe=""), json.dumps(value)[1:-1], data.hex(), data.hex().upper()):
        assert REDACTOR.mask(f"x{form}y") == f"x[masked: {name}]y"
    for before in ("", "a", "ab", "K="):
        inside = base64.b64encode(f"{before}{value} and more".encode()).decode()
        assert f"[masked: {name}]" in REDACTOR.mask(inside)


def test_each_line_of_a_known_value_is_masked() -> None:
    first, second = KNOWN["LINES"].split("\n")
    assert REDACTOR.mask(f"1\t{first}\n2\t{second}") == "1\t[masked: LINES]\n2\t[masked: LINES]"


@each_row(
    "value",
    [
        "",
        "short",
        "true",
        "changeme",
        "Password123",
        "aaaaaaaaaaaa",
        "undefined",
        "development",
        "Production",
        "my-app-name",
    ],
)
def test_a_common_value_is_no_secret(value: str) -> None:
    assert not is_worth_masking(value)
    assert Redactor({"X": value}).mask(f"a {value} b") == f"a {value} b"


@pytest.mark.parametrize("value", ["hunter2x", "aXbQzRtYpL", "correcthorsebatterystaple", "k-local-1"])
def test_a_special_value_is_a_secret(value: str) -> None:
    assert Redactor({"X": value}).mask(f"a{value}b") == "a[masked: X]b"


def test_secrets_that_overlap_are_one() -> None:
    first = Redactor({"A": "abcdefgh1234", "B": "gh1234ijklmn"})
    assert first.mask("abcdefgh1234ijklmn.") == "[masked: A]."


def test_a_token_behind_a_colour_or_an_escaped_newline_is_seen() -> None:
    token = TOKENS["github"][1]
    assert token not in NOBODY.mask(f"\x1b[01;31m\x1b[K{token}\x1b[m\x1b[K and \\n{token} and \x1b[31m{token}")


def test_a_certificate_behind_a_key_stays() -> None:
    cert = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
    assert NOBODY.mask(f"{key_block()}\n{cert}\n") == f"[masked: private key]\n{cert}\n"


PIECES = st.one_of(
    st.sampled_from([text for text, _ in TOKENS.values()]),
    st.sampled_from([token for _, token in TOKENS.values()]),
    st.sampled_from(list(KNOWN.values())),
    st.sampled_from(HARMLESS),
    st.sampled_from(
        [
            "PASSWORD = ",
            "token: ",
            '"secret": "',
            "Authorization: Bearer ",
            "://u:",
            "@",
            "=",
            "\n",
            " ",
            "-----BEGIN ",
        ]
    ),
    st.text('abkMNS_-.:=/@ \n"07', max_size=12),
    st.sampled_from(list(KNOWN.values()) + [token for _, token in TOKENS.values()]).flatmap(
        lambda token: st.integers(0, len(token)).map(lambda size: token[:size])
    ),
)


def streamed(text: str, sizes: random.Random, assignments: bool, most: int) -> str:
    stream = REDACTOR.stream(assignments)
    out, at = [], 0
    while at < len(text):
        size = sizes.randint(1, most)
        out.append(stream.feed(text[at : at + size]))
        at += size
    return "".join(out) + stream.feed("", final=True)


@settings(max_examples=tries(300, 300 * LEVEL), deadline=None)
@given(
    st.lists(PIECES, max_size=10),
    st.booleans(),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 3, 9, 60, 500]),
)
def test_a_stream_gives_what_the_whole_text_gives(
    pieces: list[str], assignments: bool, sizes: random.Random, most: int
) -> None:
    text = "".join(pieces)
    assert streamed(text, sizes, assignments, most) == REDACTOR.mask(text, assignments)


def test_every_token_is_in_the_runs_that_are_searched() -> None:
    for shape in token_shapes.SHAPES:
        if shape.starts != ("://",):
            assert all(re.fullmatch(r"[A-Za-z0-9_.=+/-]+", start) for start in shape.starts)
            assert re_parser.parse(shape.pattern).getwidth()[0] >= token_shapes.SHORTEST, shape.name


SHORT = join("xox", "b-", "76955value")
ATLASSIAN = TOKENS["atlassian"][1]


@each_row(
    "text",
    [
        # The line so far is cut where the rest of a word looks like a token: it hid the text behind it.
        f"{'x' * 40} {'y' * 30}{ATLASSIAN} z",
        # The name of a value overlaps a secret that begins before the cut: the mask showed the secret's end.
        f"x {ATLASSIAN}token: {TOKENS['openai-project'][1]}token: @",
        # A token shorter than any run that was looked for.
        f"{SHORT} {TOKENS['openai-project'][1]} end",
        SHORT,
    ],
)
def test_wherever_a_stream_is_cut_the_whole_text_comes_out(text: str) -> None:
    for assignments in (False, True):
        whole = REDACTOR.mask(text, assignments)
        for size in range(1, len(text)):
            stream = REDACTOR.stream(assignments)
            told = [
                stream.feed(text[:size]),
                *(stream.feed(one) for one in text[size:]),
                stream.feed("", final=True),
            ]
            assert "".join(told) == whole


@settings(max_examples=tries(150, 150 * LEVEL), deadline=None)
@given(st.lists(PIECES, max_size=6), st.booleans())
def test_masking_twice_is_masking_once(pieces: list[str], assignments: bool) -> None:
    masked = REDACTOR.mask(" ".join(pieces), assignments)
    assert REDACTOR.mask(masked, assignments) == masked


@each_row("text", ["Compiling", "....", "53 %", "Continue? [y/n] ", "warning: unused"])
def test_ordinary_output_is_not_held_back(text: str) -> None:
    assert NOBODY.stream(assignments=True).feed(text) == text


def test_what_is_held_back_is_bounded() -> None:
    stream = NOBODY.stream()
    told = sum(len(stream.feed(TOKENS["github"][1])) for _ in range(1000))
    assert told >= 1000 * 40 - 9000
    block = NOBODY.stream()
    body = "\n".join(key_block(lines=2000).split("\n")[:-1])
    shown = "".join(block.feed(body[at : at + 4096]) for at in range(0, len(body), 4096)) + block.feed(
        "", final=True
    )
    assert shown.startswith("[masked: private key]")


def test_ordinary_text_costs_as_much_as_it_is_long() -> None:
    source = random.Random(1)
    known = {f"NAME{number}": some(ALNUM, 40, number) for number in range(12)}
    line = "def handler(request, token=None):  # https://example.com/a?b=1 key: value, SKIP AC eyJ\n"
    lines = [line if source.random() < 0.5 else some(ALNUM + "+/", 76, number) + "\n" for number in range(4000)]
    redactor = Redactor(known)
    assert_linear(lambda count: redactor.mask("".join(lines[:count]), assignments=True), 500)


def test_a_text_made_to_be_slow_is_not() -> None:
    starts = [start for shape in patterns.SHAPES for start in shape.starts]
    units = [
        *starts,
        "PASSWORD=a1b2c3d4",
        "password=",
        "-----BEGIN ",
        "bearer a1b2c3d4",
        key_block(lines=3) + "!",
        ".",
    ]
    for unit in units:
        assert_linear(lambda size: NOBODY.mask((unit * size)[:size], assignments=True), 2_500)  # noqa: B023
