"""One document, within bounds."""

import gzip
import time

import pytest

from agent_cli.net.addresses import Refused
from agent_cli.net.fetch import FetchError, fetch

from .web_server import site

HTML = {"content-type": "text/html; charset=utf-8"}
ALLOWED = ("127.0.0.1", "localhost")


async def test_a_document_comes_with_its_type() -> None:
    with site({"/a": (200, HTML, b"<p>hi")}) as web:
        found = await fetch(f"{web.url}/a", allowed=ALLOWED)
        assert (found.status, found.media_type, found.charset, found.data, found.cut) == (
            200, "text/html", "utf-8", b"<p>hi", False,
        )  # fmt: skip
        (asked,) = web.asked
        assert asked[2]["host"] == web.url.removeprefix("http://") and "agent-cli" in asked[2]["user-agent"]


async def test_this_machine_is_refused_unless_allowed() -> None:
    with site({"/": (200, {}, b"x")}) as web:
        with pytest.raises(Refused):
            await fetch(web.url)
        assert not web.asked


async def test_a_redirect_within_the_host_is_followed_and_one_elsewhere_is_named() -> None:
    pages = {
        "/a": (302, {"location": "/b"}, b""),
        "/b": (301, {"location": "b/c"}, b""),
        "/b/c": (200, {}, b"there"),
        "/out": (302, {"location": "http://example.com/x"}, b""),
        "/loop": (302, {"location": "/loop"}, b""),
        "/file": (302, {"location": "file:///etc/passwd"}, b""),
    }
    with site(pages) as web:
        assert (await fetch(f"{web.url}/a", allowed=ALLOWED)).data == b"there"
        out = await fetch(f"{web.url}/out", allowed=ALLOWED)
        assert out.elsewhere == "http://example.com/x" and out.data == b""
        with pytest.raises(FetchError, match="more than 5 times"):
            await fetch(f"{web.url}/loop", allowed=ALLOWED)
        assert (await fetch(f"{web.url}/file", allowed=ALLOWED)).elsewhere == "file:///etc/passwd"


async def test_a_redirect_to_another_private_name_is_not_followed() -> None:
    with site({}) as inner:
        away = inner.url.replace("127.0.0.1", "localhost")
        with site({"/": (302, {"location": away}, b"")}) as web:
            assert (await fetch(web.url + "/", allowed=("127.0.0.1",))).elsewhere == away
            assert not inner.asked


async def test_size_and_time_are_bounded() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    pages = {
        "/big": (200, {}, b"x" * 300_000),
        "/bomb": (200, {"content-encoding": "gzip"}, bomb),
        "/slow": (200, {}, b"HANG"),
    }
    with site(pages) as web:
        for path in ("/big", "/bomb"):
            found = await fetch(web.url + path, allowed=ALLOWED, max_bytes=100_000)
            assert len(found.data) == 100_000 and found.cut
        begun = time.monotonic()
        with pytest.raises(FetchError, match=r"within 0\.5 s"):
            await fetch(f"{web.url}/slow", allowed=ALLOWED, limit_s=0.5)
        assert time.monotonic() - begun < 3


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://no-such-host.invalid/"])
async def test_what_cannot_be_reached_is_told(url: str) -> None:
    with pytest.raises(FetchError, match=r"127\.0\.0\.1|no-such-host"):
        await fetch(url, allowed=("127.0.0.1",), limit_s=10)


async def test_a_post_is_not_sent_on() -> None:
    with site({"/": (307, {"location": "/other"}, b"")}) as web:
        found = await fetch(f"{web.url}/", content=b"{}", headers={"x-key": "secret"}, allowed=ALLOWED)
        assert found.elsewhere and [asked[0] for asked in web.asked] == ["POST"]
