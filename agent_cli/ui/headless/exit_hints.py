"""What to do next, for somebody at a shell prompt or in a script: where the REPL would name its commands, here are
flags and command lines. Apart from `runner`, which only decides when it is said."""

from agent_cli.protocol.stop_reason import StopReason

_INSTEAD = {
    "with /model": "with --model",
    "/model chooses": "--model chooses",
    "Use /model": "Use --model",
    "(/model)": "(--model)",
    "with /bug": "with `agent -c`, then /bug",
    "/retry": '`agent run -c "go on"`',
    "/compact": "`agent -c`, then /compact",
    "(/context drop N)": "(`agent -c`, then /context drop N)",
}
_ON = '`agent run -c "go on"`'
_STOPPED: dict[StopReason, tuple[str, str]] = {
    "turn_limit": ("All model calls for one task are used", f"{_ON}; --max-turns or limits.turns allows more."),
    "cost_limit": (
        "A limit on cost is reached",
        f"{_ON} with a larger --max-cost for one task, or with --set limits.session_cost_usd=USD or "
        "--set limits.day_cost_usd=USD where that one stopped it.",
    ),
    "time_limit": ("The time for one task is over", f"{_ON}; limits.time_s allows more."),
    "length_limit": ("Answers were cut off at the output limit", '`agent run -c "go on in smaller steps"`.'),
    "stuck": ("The model repeated itself", "`agent run -c` with what it should do differently."),
    "no_answer": ("The model gave no usable answer", f"{_ON}, perhaps with another --model."),
    "content_filter": ("The provider withheld the answer", "other words, or another --model."),
    "rules_unmet": ("Ended without what a rule requires", f"{_ON}."),
    "interrupted": ("What was done so far is saved", f"{_ON}."),
    "terminated": ("What was done so far is saved", f"{_ON}."),
}
"""What happened, and how to go on."""
_WHOLE_RUN = ("The time of the whole run is over", f"{_ON} with a larger --timeout.")
_NOT_SAVED = "The conversation was not saved; without --no-session it could go on."


def hint(text: str) -> str:
    """Return a hint that may name commands of the REPL, without them."""
    for command, instead in _INSTEAD.items():
        text = text.replace(command, instead)
    return text


def stopped(reason: StopReason, *, saved: bool, from_outside: bool) -> str:
    """Return why a run stopped short of its end, and how to go on.

    Args:
        reason: the stop reason.
        saved: whether there is a session to go on with.
        from_outside: not the engine stopped it, but a signal or the time of the whole run.
    """
    known = _WHOLE_RUN if reason == "time_limit" and from_outside else _STOPPED.get(reason)
    if known is None:
        return f"stopped: {reason}"
    what, then = known
    if not saved:
        what = "" if "saved" in what else f"{what}. "
        return f"stopped: {reason}. {what}{_NOT_SAVED}"
    return f"stopped: {reason}. {what}. To go on: {then}"
