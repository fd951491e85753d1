"""Hosts in rules have the form of the hosts that connections are made to, or are refused."""

import pytest

from agent_cli.net.addresses import target_of
from agent_cli.policy.rules.rule import RuleError, matches_words, parse_rule
from tests.rows import each_row


@each_row(
    ("written", "url"),
    [
        ("bücher.example", "https://bücher.example/"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("xn--bcher-kva.example", "https://BÜCHER.example/"),
        ("*.bücher.example", "https://a.bücher.example/"),
        ("straße.example", "https://straße.example/"),
        ("２.example", "https://２.example/"),
        ("Docs.Example.", "https://docs.example./"),
        ("192.0.2.1", "http://[::ffff:192.0.2.1]/"),
        ("[2001:0DB8::1]", "http://[2001:db8:0::1]/"),
        ("2001:db8::1", "http://[2001:db8::1]:8080/"),
        ("::1", "http://[::1]/"),
        ("2001:db8:*", "http://[2001:db8::1]/"),
    ],
)
def test_a_rule_covers_the_host_of_every_way_to_write_it(written: str, url: str) -> None:
    assert matches_words(parse_rule(f"fetch({written})", "deny", "rules"), target_of(url).host)


@each_row("written", ["*bücher.example", "[::1]:80", "a..example", "example.com:443", "[1:2]"])
def test_what_no_host_can_match_is_refused(written: str) -> None:
    with pytest.raises(RuleError, match="would never match"):
        parse_rule(f"fetch({written})", "deny", "rules")


@each_row("written", ["", "*", "localhost:5432", "127.0.0.1:80", "10.0.0.*", "*.example"])
def test_other_hosts_are_taken_as_they_are(written: str) -> None:
    assert parse_rule(f"fetch({written})", "allow", "rules").pattern == written.removeprefix(
        "*" * (written == "*")
    )
