"""One document, within bounds."""

import gzip
import os
import tracemalloc

import pytest

from agent_cli.net.addresses import AddressRefused, target_of
from agent_cli.net.fetch import FetchError, _leads_on, fetch
from tests.net.web_server import site

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
        with pytest.raises(AddressRefused):
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


async def test_a_redirect_to_another_port_is_not_followed() -> None:
    with site({"/": (200, {}, b"other")}) as inner, site({"/": (302, {"location": inner.url}, b"")}) as web:
        assert (await fetch(f"{web.url}/", allowed=ALLOWED)).elsewhere == inner.url
        assert not inner.asked


def test_a_redirect_from_http_to_https_alone_changes_the_way() -> None:
    usual, odd = target_of("http://a.b/"), target_of("http://a.b:8080/")
    assert _leads_on(usual, "https://a.b/x") and _leads_on(odd, "http://A.b.:8080/x")
    assert not _leads_on(target_of("https://a.b/"), "http://a.b/")
    assert not any(
        _leads_on(odd, url) for url in ("https://a.b/", "http://a.b/", "http://www.a.b:8080/", "file:///a")
    )


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
        with pytest.raises(FetchError, match=r"within 0\.5 s"):
            await fetch(f"{web.url}/slow", allowed=ALLOWED, limit_s=0.5)


async def test_compression_within_compression_is_refused_before_it_is_undone() -> None:
    bomb = gzip.compress(gzip.compress(b"0" * 100_000_000))
    for coding in ("gzip, gzip", "br", "deflate"):
        with site({"/": (200, {"content-encoding": coding}, bomb)}) as web:
            with pytest.raises(FetchError, match="not asked for"):
                await fetch(f"{web.url}/", allowed=ALLOWED)
            assert web.asked[0][2]["accept-encoding"] == "gzip"


async def test_a_compressed_document_is_had_whole_and_a_damaged_one_told() -> None:
    pages = {
        "/good": (200, {"content-encoding": "gzip"}, gzip.compress(b"words " * 100_000)),
        "/bad": (200, {"content-encoding": "gzip"}, b"no gzip at all"),
    }
    with site(pages) as web:
        found = await fetch(f"{web.url}/good", allowed=ALLOWED)
        assert found.data == b"words " * 100_000 and not found.cut
        with pytest.raises(FetchError, match="damaged"):
            await fetch(f"{web.url}/bad", allowed=ALLOWED)


async def test_a_bomb_takes_no_more_memory_than_the_bound() -> None:
    bomb = gzip.compress(b"0" * 200_000_000)
    with site({"/": (200, {"content-encoding": "gzip"}, bomb)}) as web:
        tracemalloc.start()
        try:
            await fetch(f"{web.url}/", allowed=ALLOWED, max_bytes=1_000_000)
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("location", ["http://[::1", "http://[x]/", "//"])
async def test_a_redirect_to_nowhere_is_told(location: str) -> None:
    with site({"/": (302, {"location": location}, b"")}) as web:
        try:
            assert (await fetch(f"{web.url}/", allowed=ALLOWED)).elsewhere
        except FetchError as error:
            assert web.url in str(error)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://no-such-host.invalid/"])
async def test_what_cannot_be_reached_is_told(url: str) -> None:
    with pytest.raises(FetchError, match=r"127\.0\.0\.1|no-such-host"):
        await fetch(url, allowed=("127.0.0.1",), limit_s=10)


async def test_a_post_is_not_sent_on() -> None:
    with site({"/": (307, {"location": "/other"}, b"")}) as web:
        found = await fetch(f"{web.url}/", content=b"{}", headers={"x-key": "secret"}, allowed=ALLOWED)
        assert found.elsewhere and [asked[0] for asked in web.asked] == ["POST"]


async def test_a_request_with_headers_of_its_own_is_not_sent_on() -> None:
    with site({"/": (302, {"location": "/other"}, b"")}) as web:
        found = await fetch(f"{web.url}/", headers={"x-key": "secret"}, allowed=ALLOWED)
        assert found.elsewhere == f"{web.url}/other" and len(web.asked) == 1


async def test_all_members_of_a_compressed_document_are_read() -> None:
    parts = [gzip.compress(f"part {number}\n".encode()) for number in range(3)]
    with site({"/": (200, {"content-encoding": "gzip"}, b"".join(parts) + b"\0" * 64)}) as web:
        found = await fetch(f"{web.url}/", allowed=ALLOWED)
    assert (found.data, found.cut) == (b"part 0\npart 1\npart 2\n", False)


async def test_compressed_data_that_ends_early_is_not_given_for_the_whole() -> None:
    whole = gzip.compress(os.urandom(5_000))
    with site({"/": (200, {"content-encoding": "gzip"}, whole[:2_000])}) as web:
        found = await fetch(f"{web.url}/", allowed=ALLOWED)
    assert found.cut and 0 < len(found.data) < 5_000
