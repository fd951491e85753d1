import itertools

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.model.wire.sse import Frame, SseParser
from tests.costs import assert_linear
from tests.rows import each_row


def parse(*chunks: bytes) -> list[Frame]:
    parser = SseParser()
    frames = [frame for chunk in chunks for frame in parser.feed(chunk)]
    return frames + list(parser.flush())


@each_row(
    ("stream", "frames"),
    [
        (b"data: a\n\ndata: b\n\n", [Frame("", b"a"), Frame("", b"b")]),
        (b"data:a\n\n", [Frame("", b"a")]),
        (b"data:  a\n\n", [Frame("", b" a")]),
        (b"data: a\ndata: b\n\n", [Frame("", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [Frame("x", b"a"), Frame("", b"b")]),
        (b": comment\n\n:\n\nid: 1\n\n", []),
        (b"event: x\n\ndata: a\n\n", [Frame("", b"a")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [Frame("", b"a"), Frame("", b"b"), Frame("", b"c")]),
        (b"data\n\n", [Frame("", b"")]),
        (b"data: unfinished", [Frame("", b"unfinished")]),
        ("data: a\u2028b\x85c\n\n".encode(), [Frame("", "a\u2028b\x85c".encode())]),
    ],
)
def test_frames_at_every_split(stream: bytes, frames: list[Frame]) -> None:
    assert parse(stream) == frames
    assert parse(*(bytes([byte]) for byte in stream)) == frames
    for at in range(len(stream)):
        assert parse(stream[:at], stream[at:]) == frames


LINES = st.sampled_from([b"data: a", b"data:b", b": c", b"event: e", b"", b"junk", "data: é\u2028".encode()])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS)), st.lists(st.integers(0, 80)))
def test_chunking_never_matters(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    chunks = [stream[start:end] for start, end in itertools.pairwise(places)]
    assert parse(*chunks) == parse(stream)


def test_a_long_line_is_looked_at_once() -> None:
    def read(pieces: int) -> None:
        line = b"data: " + b"x" * 100 * pieces
        assert parse(*(line[at : at + 100] for at in range(0, len(line), 100))) == [Frame("", line[6:])]

    assert_linear(read, 4000)
