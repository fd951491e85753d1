"""Wording of advice after an error, and after a turn that stopped early. All wordings are here, so that they can
be read side by side: in the REPL they name slash commands, in a shell command lines and flags, and without a saved
session nothing that needs one."""

from typing import Literal

import msgspec

from agent_cli.protocol import events as ev
from agent_cli.protocol.client import Snapshot
from agent_cli.protocol.hints import Hint, HintKind
from agent_cli.protocol.stop_reason import StopReason


class Situation(msgspec.Struct, frozen=True):
    """The context in which the user reads a hint."""

    front: Literal["repl", "shell"]
    """`repl` accepts slash commands, with or without a full screen."""
    saved: bool
    """True if there is a session file to continue."""


AT_A_SHELL = Situation("shell", saved=False)
"""No session: for a command such as `agent doctor`."""


class _Words(msgspec.Struct, frozen=True):
    """Wordings of a hint; `{}` is replaced by its subject."""

    repl: str
    shell: str = ""
    """Empty: as in the REPL."""
    repl_unsaved: str = ""
    """Without a saved session. Empty: as with one."""
    shell_unsaved: str = ""


def _or_another_model(first: str) -> _Words:
    both = f"{first}, or choose another model with"
    return _Words(f"{both} /model.", f"{both} --model.")


_CONTINUE = '`agent run -c "continue"`'

_WORDS: dict[HintKind, _Words] = {
    "check_key": _Words("Check that {} holds a valid key of this provider."),
    "no_access": _Words(
        "The key may lack access to this model; choose another with /model.",
        "The key may lack access to this model; choose another with --model.",
    ),
    "add_credit": _or_another_model("Add credit there"),
    "check_model": _Words(
        "Check the model's name (/model lists models) and the base URL in {}.",
        "Check the model's name (`agent models` lists models, --model chooses one) and the base URL in {}.",
    ),
    "load_model": _Words(
        "Load the model there first, and check the base URL; /model lists what the server offers.",
        "Load the model there first, and check the base URL; `agent models` lists what the server offers.",
    ),
    "read_message": _or_another_model("Change what the message names"),
    "use_responses": _or_another_model(
        "Set `providers.{}.wire` to `openai_responses` if the server has that address"
    ),
    "shorten_conversation": _Words(
        "Shorten it with /compact, or choose a model with a larger window with /model.",
        "Choose a model with a larger window (--model), offer fewer tools (--tools core), or compact the "
        "conversation in `agent -c`.",
        shell_unsaved="Choose a model with a larger window (--model), offer fewer tools (--tools core), or "
        "shorten the task.",
    ),
    "shorten_request": _Words(
        "Leave out large files or images, or shorten the conversation with /compact.",
        "Leave out large files or images.",
    ),
    "wait": _or_another_model("Wait {}"),
    "try_again": _or_another_model("Try again in {}"),
    "server_failed": _Words("Try again in {}; its status page may say more."),
    "rephrase": _or_another_model("Rephrase the request"),
    "change_request": _or_another_model("Change what the message names"),
    "slow_server": _Words(
        "Check the network and any proxy; a slow server needs larger `providers.{}.timeouts`."
    ),
    "silent_server": _Words("A slow server needs larger `providers.{}.timeouts` (first_byte_s, idle_s)."),
    "check_connection": _Words("Check the network, any proxy and the base URL."),
    "answer_cut": _Words("A proxy in between may cut long answers."),
    "wrong_protocol": _Words("Check that the base URL speaks this model's protocol."),
    "not_the_provider": _Words(
        "Check the base URL ({}), any proxy, and whether the network wants a login: open a page in a browser."
    ),
    "web_page": _Words(
        "A wrong base URL ({}), a proxy, a firewall or the network's login page may be in between."
    ),
    "start_server": _Words("Is the server running? Start it with {}."),
    "check_proxy_address": _Words("Check the address in {}, the network and any VPN."),
    "check_host": _Words(
        "Check the network, any VPN and the host in the base URL; where a proxy is needed, set HTTPS_PROXY."
    ),
    "check_proxy": _Words("Check that it runs and that {} is right; NO_PROXY lists hosts reached without it."),
    "check_server": _Words(
        "Check that the server runs, host and port of the base URL, the network and any firewall or proxy."
    ),
    "proxy_login": _Words(
        "Put them into {}, before the host: USER:PASSWORD@HOST:PORT, special characters percent-encoded."
    ),
    "proxy_forbids": _Words(
        "Ask whoever runs the proxy to allow {}; hosts that need no proxy belong in NO_PROXY."
    ),
    "not_a_proxy": _Words("Check scheme, host and port of the proxy in {}."),
    "certificate": _Words(
        "If your company signs its own certificates, name the file of its authority in SSL_CERT_FILE (instead of "
        "the system's authorities) or NODE_EXTRA_CA_CERTS (besides them)."
    ),
    "certificate_date": _Words(
        "Check the clock of this machine; otherwise whoever runs the server has to renew its certificate."
    ),
    "certificate_name": _Words("Use a host name in the base URL that the certificate is issued for."),
    "tls_blocked": _Words(
        "A firewall or proxy may be in between; check the port and that the server speaks https."
    ),
    "no_tls": _Words(
        "Something answers there without TLS: use http:// in the base URL, or another port."
    ),
    "slow_dns": _Words("Check the network, its name server and any VPN."),
    "slow_connect": _Words(
        "Check the network and any firewall; where a proxy is needed, set HTTPS_PROXY."
    ),
    "slow_tls": _Words(
        "A firewall may be in between, or the server is not one for https; check the port."
    ),
    "check_machine": _Words(
        "/model chooses a model; `agent doctor` at a shell checks this machine.",
        "`agent doctor` checks this machine; `agent models` lists known models.",
    ),
    "make_room": _Words(
        "Choose a model with a larger window (/model), drop what is large (/context drop N), or shorten the "
        "instruction files.",
        "Choose a model with a larger window (--model), offer fewer tools (--tools core), shorten the "
        "instruction files, or drop large results in `agent -c`.",
        shell_unsaved="Choose a model with a larger window (--model), offer fewer tools (--tools core), or "
        "shorten the instruction files.",
    ),
    "disk": _Words(
        "Make room there or fix its permissions (`agent doctor` at a shell checks); AGENT_STATE_DIR names "
        "another folder.",
        "Make room there or fix its permissions (`agent doctor` checks); AGENT_STATE_DIR names another folder, "
        "and --no-session saves nothing.",
    ),
    "undo_conversation": _Words(
        "`/rewind N conversation` undoes what was said from prompt N on, and leaves the files.",
        "`agent undo --conversation` undoes what was said, and leaves the files.",
    ),
    "own_fault": _Words(
        "This is a fault of agent-cli. /bug collects what a report needs.",
        "This is a fault of agent-cli. Run again with --debug for a log.",
    ),
    "unfit_answer": _or_another_model("Describe each field in the task, simplify the schema"),
    "retry": _Words(
        "Continue with /retry.", f"Continue with {_CONTINUE}.", shell_unsaved="Then run the task again."
    ),
    "restart": _Words(
        "Then restart and resume with `agent -c`.",
        f"Then continue with {_CONTINUE}.",
        "Then start again.",
        "Then run the task again.",
    ),
    "log": _Words("Log: {}"),
}  # fmt: skip

STOPPED: dict[StopReason, str] = {
    "end_turn": "",
    "abandoned": "Continued with your new message.",
    "turn_limit": "Stopped at the limit of model calls for one prompt. /retry continues.",
    "cost_limit": "Stopped at a limit on cost. To continue: agent -c --set KEY=MORE, with the key named above.",
    "hook_refused": "Stopped by a hook.",
    "declined": "Stopped, as you said. /retry continues.",
    "time_limit": "Stopped at the time limit. /retry continues.",
    "length_limit": "The answer was cut off at the output limit again and again. Ask for smaller steps.",
    "context_limit": "The conversation no longer fits the model. Try /compact, or /new.",
    "stuck": "Stopped: the model repeated itself. Tell it what to do differently.",
    "no_answer": "The model gave an empty answer twice. /retry asks again.",
    "content_filter": "The provider's content filter stopped the answer.",
    "rules_unmet": "Ended without what a rule requires. /retry asks again.",
    "auth_error": "The provider refused the credentials.",
    "provider_error": "The provider failed. /retry tries again.",
    "bad_model": "The provider does not know this model. Choose another with /model.",
    "usage_error": "Wrong usage or configuration.",
    "interrupted": "Interrupted. Nothing lost – /retry continues.",
    "terminated": "Terminated.",
    "internal_error": "Something broke inside the program.",
}
"""Messages for a turn that stopped without an error, in the REPL."""

_RUN_STOPPED: dict[StopReason, tuple[str, str]] = {
    "turn_limit": (
        "All model calls for one task are used",
        f"{_CONTINUE}; --max-turns or limits.turns allows more.",
    ),
    "cost_limit": (
        "A limit on cost is reached",
        f"{_CONTINUE} with a larger --max-cost for one task, or with --set limits.session_cost_usd=USD or "
        "--set limits.day_cost_usd=USD where that one stopped it.",
    ),
    "time_limit": ("The time for one task is over", f"{_CONTINUE}; limits.time_s allows more."),
    "length_limit": ("Answers were cut off at the output limit", '`agent run -c "continue in smaller steps"`.'),
    "stuck": ("The model repeated itself", "`agent run -c` with what it should do differently."),
    "no_answer": ("The model gave no usable answer", f"{_CONTINUE}, perhaps with another --model."),
    "content_filter": ("The provider withheld the answer", "other words, or another --model."),
    "rules_unmet": ("Ended without what a rule requires", f"{_CONTINUE}."),
    "hook_refused": ("A hook refused the prompt or ended the turn", f"{_CONTINUE}, or --no-hooks."),
    "interrupted": ("What was done so far is saved", f"{_CONTINUE}."),
    "terminated": ("What was done so far is saved", f"{_CONTINUE}."),
}
"""Messages for a run that stopped without an error: what happened, and how to continue."""
_RUN_OVER = ("The time of the whole run is over", f"{_CONTINUE} with a larger --timeout.")
_NOT_SAVED = "The conversation was not saved; without --no-session it could be continued."


def situation(front: Literal["repl", "shell"], now: Snapshot) -> Situation:
    """Return the situation of a session's user."""
    return Situation(front, saved=bool(now.session_path))


def advice(hints: tuple[Hint, ...], where: Situation) -> str:
    """Return hints in words; the path of a log is on a separate line."""
    return "".join(("\n" if hint.kind == "log" else " ") + _words(hint, where) for hint in hints).strip()


def _words(hint: Hint, where: Situation) -> str:
    words = _WORDS[hint.kind]
    if where.front == "shell":
        saved = words.shell or words.repl
        text = saved if where.saved else words.shell_unsaved or saved
    else:
        text = words.repl if where.saved else words.repl_unsaved or words.repl
    return text.replace("{}", hint.about)


def error_with_advice(error: ev.ErrorInfo, where: Situation) -> ev.ErrorInfo:
    """Return an error whose `hint` words its hints; unchanged if it has none, as in an older file."""
    return msgspec.structs.replace(error, hint=advice(error.hints, where)) if error.hints else error


def with_advice(event: ev.AnyEvent, front: Literal["repl", "shell"], now: Snapshot) -> ev.AnyEvent:
    """Return an event whose error, if any, words its hints for the user of a session."""
    match event:
        case ev.TurnFailed() | ev.OperationFailed() | ev.RetryScheduled() | ev.FellBack() | ev.SessionClosed():
            if event.error is None or not event.error.hints:
                return event
            return msgspec.structs.replace(event, error=error_with_advice(event.error, situation(front, now)))
        case _:
            return event


def run_stopped(reason: StopReason, *, saved: bool, from_outside: bool) -> str:
    """Return why a run stopped early, and how to continue.

    Args:
        reason: the stop reason.
        saved: True if there is a session to continue.
        from_outside: True if a signal or the timeout of the whole run stopped it, not the engine.
    """
    known = _RUN_OVER if reason == "time_limit" and from_outside else _RUN_STOPPED.get(reason)
    if known is None:
        return f"stopped: {reason}"
    what, then = known
    if not saved:
        what = "" if "saved" in what else f"{what}. "
        return f"stopped: {reason}. {what}{_NOT_SAVED}"
    return f"stopped: {reason}. {what}. To continue: {then}"
