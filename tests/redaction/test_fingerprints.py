"""Secrets of earlier runs are recognized by their fingerprints, whole or in pieces, and by nothing else."""

import base64
import json
import random
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.redaction.fingerprints import Recognizer, known_secret
from agent_cli.redaction.redactor import Redactor, forms, secret_lines
from tests.fuzz import tries
from tests.redaction.secrets import ALNUM, some

KEY = bytes(range(32))
GONE = {
    "DEPLOY": some(ALNUM, 24, "deploy"),
    "PHRASE": "correct horse battery 42 staple",
    "ODD": 'pä"ss/w=rd&' + some(ALNUM, 6, "odd"),
    "LONG": some(ALNUM, 300, "long"),
}
HERE = {"NOW": some(ALNUM, 30, "now")}


def recognizer(known: dict[str, str]) -> Recognizer:
    lines = secret_lines(known)
    return Recognizer(KEY, [known_secret(KEY, name, line, forms(line)) for line, name in lines.items()])


REDACTOR = Redactor(HERE, recognizer(GONE))


@pytest.mark.parametrize("name", GONE)
def test_a_value_is_recognized_however_it_is_written(name: str) -> None:
    value = GONE[name]
    data = value.encode()
    for form in (value, quote(value, safe=""), json.dumps(value)[1:-1], data.hex(), data.hex().upper()):
        assert REDACTOR.mask(f"x{form}y") == f"x[masked: {name}]y"
    for before in ("", "a", "ab", "K="):
        assert f"[masked: {name}]" in REDACTOR.mask(base64.b64encode(f"{before}{value} more".encode()).decode())


def test_it_masks_what_the_values_themselves_would_mask() -> None:
    plain = Redactor({**GONE, **HERE})
    text = "\n".join([*GONE.values(), *HERE.values(), some(ALNUM, 5000, "other"), GONE["LONG"][:200]])
    assert REDACTOR.mask(text) == plain.mask(text) != text


def test_a_value_that_is_known_again_keeps_its_first_name() -> None:
    again = Redactor({"RENAMED": GONE["DEPLOY"]}, recognizer(GONE))
    assert again.mask(f"a {GONE['DEPLOY']}") == "a [masked: DEPLOY]"


def test_another_key_recognizes_nothing() -> None:
    known = [known_secret(KEY, "DEPLOY", GONE["DEPLOY"], ())]
    assert not list(Recognizer(bytes(32), known).spans(GONE["DEPLOY"]))
    assert GONE["DEPLOY"] not in msgspec.json.encode(known).decode()


PIECES = st.one_of(
    st.sampled_from([*GONE.values(), *HERE.values()]),
    st.sampled_from(list(GONE.values())).flatmap(
        lambda value: st.integers(0, len(value)).map(lambda n: value[:n])
    ),
    st.sampled_from(["token: ", "=", "\n", " ", "://u:", "an ordinary line of text\n"]),
    st.text('abc1-_= \n"', max_size=12),
    st.text("pä漢😀\udc80 ", max_size=12),
)


@settings(max_examples=tries(200), deadline=None)
@given(st.lists(PIECES, max_size=10))
def test_whatever_is_around_it_a_value_is_found_where_it_is(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = [(span.start, span.end) for span in Redactor({**GONE, **HERE}).recognized(text)]
    assert sorted((span.start, span.end) for span in REDACTOR.recognized(text)) == sorted(plain)


@settings(max_examples=tries(200), deadline=None)
@given(st.lists(PIECES, max_size=10), st.randoms(use_true_random=False), st.sampled_from([1, 3, 9, 60, 500]))
def test_a_stream_gives_what_the_whole_text_gives(pieces: list[str], sizes: random.Random, most: int) -> None:
    text = "".join(pieces)
    stream = REDACTOR.stream()
    out, at = [], 0
    while at < len(text):
        size = sizes.randint(1, most)
        out.append(stream.feed(text[at : at + size]))
        at += size
    assert "".join(out) + stream.feed("", final=True) == REDACTOR.mask(text)
