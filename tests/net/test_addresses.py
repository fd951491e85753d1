"""Which addresses may be fetched from, whatever form they are written in."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.net.addresses import AddressRefused, is_public, reachable, refuse_private, target_of
from tests.rows import each_row

NAMES = {
    "example.com": ["93.184.216.34"],
    "six.example": ["2606:2800:220:1:248:1893:25c8:1946"],
    "rebind.evil": ["93.184.216.34", "127.0.0.1"],
    "inside.evil": ["10.0.0.5"],
    "meta.evil": ["169.254.169.254"],
    "mapped.evil": ["::ffff:127.0.0.1"],
    "nat64.evil": ["64:ff9b::7f00:1"],
    "shared.evil": ["100.64.0.1"],
}


async def resolve(host: str, port: int) -> Sequence[str]:
    return NAMES.get(host, [])


async def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://example.com/", ("93.184.216.34",)),
        ("http://EXAMPLE.com.:8080/a?b=c#d", ("93.184.216.34",)),
        ("https://93.184.216.34/", ("93.184.216.34",)),
        ("https://six.example/", ("2606:2800:220:1:248:1893:25c8:1946",)),
    ],
)
async def test_the_open_network_is_reached(url: str, addresses: tuple[str, ...]) -> None:
    assert await reachable(target_of(url), resolve) == addresses


PRIVATE = """
http://localhost/ http://127.0.0.1/ http://127.1/ http://2130706433/ http://0x7f000001/ http://0177.0.0.1/ http://0/
http://[::1]/ http://[::ffff:127.0.0.1]/ http://[::]/ http://169.254.169.254/latest/meta-data/ http://[fd00:ec2::254]/
http://metadata.google.internal/ http://10.0.0.1/ http://192.168.1.1/ http://172.16.0.1/ http://100.100.100.200/
http://rebind.evil/ http://inside.evil/ http://meta.evil/ http://mapped.evil/ http://nat64.evil/ http://shared.evil/
http://[::127.0.0.1]/ http://[::ffff:0:127.0.0.1]/ http://[fec0::1]/ http://[64:ff9b:1::7f00:1]/ http://[5f00::1]/
http://[::5efe:7f00:1]/ http://[3fff::1]/ http://localhost\u3002:8080/ http://metadata.google.internal\u3002/
http://printer\uff0elocal\uff61/ http://printer.local/ http://router/ http://[::ffff:a00:1]/ http://[2002:7f00:1::]/ http://0.0.0.0/ http://224.0.0.1/
""".split()


@each_row("url", PRIVATE)
async def test_private_addresses_are_refused_in_every_form(url: str) -> None:
    with pytest.raises(AddressRefused):
        await reachable(target_of(url), resolve)


@each_row(
    "url",
    [
        "http://example.com@127.0.0.1/", "file:///etc/passwd", "ftp://example.com/", "gopher://127.0.0.1/",
        "http://example.com\\@127.0.0.1/", "http://exam\u200bple.com/", "http://a b/", "https://example.com:99999/",
        "http:///x", "javascript:alert(1)", "data:text/html,x", "", "example.com", "http://[::1",
        "http://a/" + "x" * 5000, "http://a..b.com/", f"http://{'a' * 64}.com/", "http://.com/",
    ],
)  # fmt: skip
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        target_of(url)


async def test_digits_of_other_scripts_are_no_way_round() -> None:
    with pytest.raises(AddressRefused):
        await reachable(target_of("http://\u2460\u2461\u2466.0.0.1/"), loopback)


async def test_what_the_user_allows_is_reached_and_nothing_else() -> None:
    for entry in ("localhost", "LOCALHOST:3000", "*"):
        assert await reachable(target_of("http://localhost:3000/"), loopback, (entry,)) == ("127.0.0.1",)
    with pytest.raises(AddressRefused):
        await reachable(target_of("http://localhost:4000/"), loopback, ("localhost:3000",))
    with pytest.raises(AddressRefused, match="private_hosts"):
        await reachable(target_of("http://router/"), loopback, ("localhost",))
    for other in ("http://lan/", "http://evillan/", "http://wiki.lan:4000/", "http://wiki.lan.evil/"):
        with pytest.raises(AddressRefused):
            await reachable(target_of(other), loopback, ("*.lan:3000",))


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("http://[::1]:3000/", "[::1]:3000"),
        ("http://[::1]/", "[::1]"),
        ("http://[0:0:0:0:0:0:0:1]/", "::1"),
        ("http://büro.lan/", "büro.lan"),
        ("http://wiki.lan/", "wiki.lan."),
        ("http://wiki.büro.lan:3000/", "*.büro.lan"),
        ("http://wiki.lan:3000/", "*.lan:3000"),
    ],
)
async def test_what_the_user_allows_may_be_written_as_in_an_address(url: str, entry: str) -> None:
    assert await reachable(target_of(url), loopback, (entry,))
    with pytest.raises(AddressRefused):
        await reachable(target_of("http://[::2]:3000/"), loopback, (entry,))


def test_letters_alone_tell_many_private_places() -> None:
    for url in ("http://localhost:3000/", "http://10.0.0.1/", "http://[::1]/", "http://box.lan/"):
        with pytest.raises(AddressRefused):
            refuse_private(target_of(url))
        refuse_private(target_of(url), ("*",))
    refuse_private(target_of("http://inside.evil/"))


async def test_nobody_is_told_to_allow_what_hands_out_credentials() -> None:
    for url in ("http://169.254.169.254/", "http://meta.evil/", "http://metadata.google.internal/"):
        with pytest.raises(AddressRefused) as refused:
            await reachable(target_of(url), resolve)
        assert "private_hosts" not in str(refused.value) and "curl" not in str(refused.value)


_NETWORKS = st.sampled_from(
    [
        "10.0.0.0/8",
        "127.0.0.0/8",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "fc00::/7",
        "fe80::/10",
        "::/96",
        "fec0::/10",
        "4000::/2",
    ]
)


@given(_NETWORKS.flatmap(lambda network: st.ip_addresses(network=network)))
def test_no_private_address_is_public(address: object) -> None:
    assert not is_public(str(address))


def test_the_host_header_names_a_port_only_where_it_is_unusual() -> None:
    urls = ("http://a.b:80/", "https://a.b:80/", "http://[2606::1]/")
    assert [target_of(url).authority for url in urls] == ["a.b", "a.b:80", "[2606::1]"]
