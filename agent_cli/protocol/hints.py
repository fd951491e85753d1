"""What the user can do about an error: a closed set of values. Each front end words them for its own situation."""

from typing import Literal

import msgspec

HintKind = Literal[
    # refused by the provider
    "check_key",
    "no_access",
    "add_credit",
    "check_model",
    "load_model",
    "read_message",
    "use_responses",
    "shorten_conversation",
    "shorten_request",
    "wait",
    "try_again",
    "server_failed",
    "rephrase",
    "change_request",
    # no answer, or an incomplete one
    "slow_server",
    "silent_server",
    "check_connection",
    "answer_cut",
    "wrong_protocol",
    "not_the_provider",
    "web_page",
    # connecting to the server
    "start_server",
    "check_proxy_address",
    "check_host",
    "check_proxy",
    "check_server",
    "proxy_login",
    "proxy_forbids",
    "not_a_proxy",
    "certificate",
    "certificate_date",
    "certificate_name",
    "tls_blocked",
    "no_tls",
    "slow_dns",
    "slow_connect",
    "slow_tls",
    # on this machine
    "check_machine",
    "make_room",
    "disk",
    "undo_conversation",
    "own_fault",
    "unfit_answer",
    # afterwards
    "retry",
    "restart",
    "log",
]
"""What to do. The wording of each hint, in `ui/text/hints.py`, shows what its argument is."""


class Hint(msgspec.Struct, frozen=True):
    """One step that the user can take."""

    kind: HintKind
    about: str = ""
    """Object of the hint where its kind has one: variables, a proxy, a waiting time or a file."""
