"""Name what the user can do about an error: a closed set of values, which each front end words for where its user
sits."""

from typing import Literal

import msgspec

HintKind = Literal[
    # a refusal of the provider
    "check_key",
    "no_access",
    "add_credit",
    "check_model",
    "load_model",
    "read_message",
    "shorten_conversation",
    "shorten_request",
    "wait",
    "try_again",
    "server_failed",
    "rephrase",
    "change_request",
    # an answer that did not come, or not whole
    "slow_server",
    "silent_server",
    "check_connection",
    "answer_cut",
    "wrong_protocol",
    "not_the_provider",
    "web_page",
    # on the way to the server
    "start_server",
    "check_proxy_address",
    "check_host",
    "check_proxy",
    "check_server",
    "proxy_login",
    "proxy_forbids",
    "not_a_proxy",
    "certificate",
    "tls_blocked",
    "no_tls",
    "slow_dns",
    "slow_connect",
    "slow_tls",
    # on this machine
    "check_machine",
    "make_room",
    "disk",
    "own_fault",
    "unfit_answer",
    # afterwards
    "retry",
    "restart",
    "log",
]
"""What to do. The argument of a hint is named with its wording, in `ui/text/hints.py`."""


class Hint(msgspec.Struct, frozen=True):
    """One step that the user can take."""

    kind: HintKind
    about: str = ""
    """What it is about, where the kind names something: variables, a proxy, a time to wait, a file."""
