"""Rules on the order and number of tool calls within a turn: what may be called now, what must run after an edit,
and what is missing before the end.

A rule on a single command or file (`never_run`, `never_edit`, `needs_approval`) is a permission rule. Rules that
depend on earlier calls are handled here.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.call_rule_schema import ToolRule, several
from agent_cli.policy.call_patterns import (
    CallPattern,
    count,
    matches_surely,
    may_match,
    parse_call,
)
from agent_cli.policy.rules.rule import Rule, matches_path, parse_rule
from agent_cli.protocol.actions import Action, Deny, RunCommand, WritePath
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CallStarted

if TYPE_CHECKING:
    from agent_cli.tools.kit.base import ToolContext
    from agent_cli.tools.registry import Registry

_MOST_FILES = 50
"""Maximum number of files changed by one call for which a command with `{file}` runs."""
MOST_REMINDERS = 3
"""Number of times that a model which wants to stop is reminded of what is missing."""
_AS_PERMISSIONS = ("never_run", "never_edit", "needs_approval")


class BoundRule(msgspec.Struct, frozen=True):
    """A parsed rule with the place of its definition."""

    rule: ToolRule
    place: str
    calls: tuple[CallPattern, ...]
    """The calls named by the rule's kind."""
    about: CallPattern | None
    """The parsed `call` of the rule."""
    paths: Rule | None

    @property
    def label(self) -> str:
        """Name of the rule in a verdict."""
        named = ", ".join(map(str, self.calls)) or self.about or self.rule.paths
        return f"{self.rule.kind} {named} ({self.place})"


class _Done(msgspec.Struct, frozen=True):
    """A call made in this turn."""

    tool: str
    actions: tuple[Action, ...]
    ok: bool
    changed: tuple[str, ...] = ()
    """Files that the call is known to have changed, whatever its declared actions."""


def was_made(result: ToolResult) -> bool:
    """Return True if a call with this result ran. A call refused by the user or a rule did not."""
    return result.status not in ("denied", "cancelled") and not result.rule


def bind(rules: Iterable[tuple[ToolRule, str]]) -> tuple[BoundRule, ...]:
    """Return the parsed rules that depend on other calls.

    Raises:
        RuleError: a CALL or a path cannot be parsed.
    """
    return tuple(_bound(rule, place) for rule, place in rules if rule.kind not in _AS_PERMISSIONS)


def as_permissions(rules: Iterable[tuple[ToolRule, str]]) -> Iterator[Rule]:
    """Yield the permission rules equivalent to the remaining kinds.

    Raises:
        RuleError: a pattern cannot be parsed.
    """
    for rule, place in rules:
        if rule.never_run is not None:
            yield parse_rule(f"shell({rule.never_run})", "deny", place)
        elif rule.never_edit is not None:
            yield parse_rule(f"write({rule.never_edit})", "deny", place)
        elif rule.needs_approval is not None:
            yield parse_rule(rule.needs_approval, "ask", place)


def _bound(rule: ToolRule, place: str) -> BoundRule:
    value = getattr(rule, rule.kind)
    named = several(value) if rule.kind not in ("at_most", "after_edit_run") else ()
    return BoundRule(
        rule=rule,
        place=place,
        calls=tuple(parse_call(text, place) for text in named),
        about=parse_call(rule.call, place) if rule.call else None,
        paths=parse_rule(f"write({rule.paths})", "deny", place) if rule.paths else None,
    )


CallMade = tuple[str, tuple[Action, ...], ToolResult | None]
"""Tool, actions and result of a call that ran or had begun to run; without a result if it was cut off."""


def calls_made(records: Sequence[AnyRecord], registry: "Registry", context: "ToolContext") -> Iterator[CallMade]:
    """Yield the calls of the newest prompt in the order of their results, then those that were cut off."""
    recent = _newest_input(records)
    calls = {call.id: call for each in recent if isinstance(each, AssistantMessage) for call in each.calls}
    begun = {each.call_id for each in recent if isinstance(each, CallStarted)}
    results = {each.call_id: each for each in recent if isinstance(each, ToolResult)}
    for call_id in (*results, *(begun - results.keys())):
        result = results.get(call_id)
        if call_id not in calls or not (call_id in begun or (result and was_made(result))):
            continue
        call = calls[call_id]
        if (actions := _actions(call, result, registry, context)) is not None:
            yield call.name, actions, result


def _newest_input(records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
    """Return the records from the newest turn that began with a prompt; later turns continued it."""
    from agent_cli.session.undo_state import taken_back

    undone = taken_back(records).messages
    turns: set[str] = set()
    start = 0
    for index, record in enumerate(records):
        if record.turn_id in turns or record.turn_id in undone or not record.turn_id:
            continue
        turns.add(record.turn_id)
        if isinstance(record, UserMessage) and record.origin == "human":
            start = index
    return [record for record in records[start:] if record.turn_id not in undone]


def _actions(
    call: ToolCall, result: ToolResult | None, registry: "Registry", context: "ToolContext"
) -> tuple[Action, ...] | None:
    """Return the actions of a call; None if it cannot be parsed."""
    try:
        tool, params = registry.parse(call.name, call.arguments)
        actions = tuple(tool.actions(params, context))
    except Exception:  # the call's own result says what was wrong
        return None
    if result is None or not result.command:
        return actions
    # the user may have edited the command before allowing it
    return tuple(
        msgspec.structs.replace(each, command=result.command) if isinstance(each, RunCommand) else each
        for each in actions
    )


class TurnRules:
    """The rules, and the calls of one turn so far."""

    def __init__(self, rules: Sequence[BoundRule], root: str) -> None:
        self._rules = rules
        self._root = root
        self._begun: list[tuple[str, tuple[Action, ...]]] = []
        self._done: list[_Done] = []
        self._output = ""
        """Output of the last call."""
        self._reminders_left = MOST_REMINDERS
        self._was_tried = False

    @property
    def any(self) -> bool:
        """True if there are any rules."""
        return bool(self._rules)

    def record_start(self, tool: str, actions: tuple[Action, ...]) -> None:
        """Record that a call starts; others may start while it runs."""
        if self._rules:
            self._begun.append((tool, actions))

    def resume_after(self, calls: Iterable[CallMade]) -> None:
        """Count the calls made for the same prompt in earlier turns that did not complete."""
        for tool, actions, result in calls:
            self.record_start(tool, actions)
            if result is not None:
                self.record_result(tool, actions, result)

    def forget(self) -> None:
        """Reset: later calls belong to another prompt."""
        self._begun.clear()
        self._done.clear()
        self._output = ""
        self._was_tried = False

    def record_result(self, tool: str, actions: tuple[Action, ...], result: ToolResult) -> None:
        """Record the result of a call."""
        self._was_tried = True
        if self._rules and was_made(result):
            changed = tuple(os.path.join(self._root, each.path) for each in result.changes)
            self._done.append(_Done(tool, actions, result.status == "ok", changed))
            self._output = result.text

    def refusal(self, tool: str, actions: tuple[Action, ...]) -> Deny | None:
        """Return why a call may not be made now; None if no rule forbids it."""
        for bound in self._rules:
            if why := self._against(bound, tool, actions):
                because = f" ({bound.rule.because})" if bound.rule.because else ""
                return Deny(bound.label, f"{why}{because}")
        return None

    def _against(self, bound: BoundRule, tool: str, actions: tuple[Action, ...]) -> str:
        names = " or ".join(map(str, bound.calls))
        meant = bound.about is not None and may_match(bound.about, tool, actions, self._root)
        is_named = any(matches_surely(call, tool, actions, self._root) for call in bound.calls)
        match bound.rule.kind:
            case "run_first" if not self._is_a_beginning(tool, actions) and not self._succeeded(
                bound.calls, self._done
            ):
                return f"{names} must be called, and succeed, before anything else"
            case "only_after" if meant and not self._succeeded(bound.calls, self._since_edit(None, bound.calls)):
                return f"{bound.about} may only follow a successful {names}, with no edit in between"
            case "then_only" if not is_named and self._follows(bound):
                return f"after {bound.about} only {names} may be called"
            case "at_most" if meant and self._count(bound, tool, actions) > (bound.rule.at_most or 0):
                return f"{bound.about} may be called {bound.rule.at_most} times per prompt, and was"
        return ""

    def _is_a_beginning(self, tool: str, actions: tuple[Action, ...]) -> bool:
        """Return True if any `run_first` rule names this call."""
        first = (call for bound in self._rules if bound.rule.kind == "run_first" for call in bound.calls)
        return any(matches_surely(call, tool, actions, self._root, "all") for call in first)

    def _follows(self, bound: BoundRule) -> bool:
        """Return True if the last call is the one that the rule names, with the required output."""
        if not self._done or bound.about is None:
            return False
        last = self._done[-1]
        is_it = last.ok and matches_surely(bound.about, last.tool, last.actions, self._root)
        wanted = bound.rule.if_output
        return is_it and (wanted is None or re.search(wanted, self._output) is not None)

    def _count(self, bound: BoundRule, tool: str, actions: tuple[Action, ...]) -> int:
        """Return the number of calls that a rule counts, including this one."""
        assert bound.about is not None
        made = (*self._begun, (tool, actions))
        return sum(count(bound.about, name, done, self._root) for name, done in made)

    def _succeeded(self, calls: tuple[CallPattern, ...], done: Sequence[_Done]) -> bool:
        return any(
            each.ok and matches_surely(call, each.tool, each.actions, self._root)
            for each in done
            for call in calls
        )

    def _since_edit(self, paths: Rule | None, required: tuple[CallPattern, ...]) -> list[_Done]:
        """Return the calls after the last one that changed a file, limited to `paths` if given. Files that a
        required call writes itself, such as caches and reports, do not count as edits."""
        for at in range(len(self._done) - 1, -1, -1):
            done = self._done[at]
            runs = (call for call in required if not _edits(call))
            if any(matches_surely(call, done.tool, done.actions, self._root, "last") for call in runs):
                continue
            if self._edited(done, paths):
                return self._done[at + 1 :]
        return self._done

    def _edited(self, done: _Done, paths: Rule | None) -> list[str]:
        """Return the files changed by a call that match `paths`."""
        written = [action.path for action in done.actions if isinstance(action, WritePath)] if done.ok else []
        files = dict.fromkeys((*written, *done.changed))
        return [path for path in files if paths is None or matches_path(paths, path, self._root)]

    @property
    def follows_edits(self) -> bool:
        """True if a rule depends on which files were changed, by any call."""
        return any(
            bound.rule.kind in ("after_edit_run", "only_after")
            or (bound.rule.kind == "required_before_end" and bound.paths is not None)
            for bound in self._rules
        )

    def after_edit(self, written: Iterable[str]) -> Iterator[tuple[BoundRule, str]]:
        """Yield the commands to run after files were changed, each with its rule."""
        from shlex import quote

        found = list(dict.fromkeys(written))
        for bound in self._rules:
            command, paths = bound.rule.after_edit_run, bound.paths
            if command is None or paths is None:
                continue
            files = [path for path in found if matches_path(paths, path, self._root)]
            if "{file}" in command:
                yield from ((bound, command.replace("{file}", quote(path))) for path in files[:_MOST_FILES])
            elif files:
                yield bound, command

    def must_call(self) -> str:
        """Return the only tool that the turn may begin with; empty if there are several, or once a call was tried:
        whatever its outcome, the model may then answer in words."""
        first = [bound for bound in self._rules if bound.rule.kind == "run_first"]
        if self._was_tried or any(self._succeeded(bound.calls, self._done) for bound in first):
            return ""
        names = {_tool_of(call) for bound in first for call in bound.calls}
        return names.pop() if len(names) == 1 else ""

    def ended_by(self, tool: str, actions: tuple[Action, ...]) -> str:
        """Return the rule that ends the turn if this call succeeds; empty if there is none."""
        for bound in self._rules:
            if bound.rule.kind == "ends_turn" and any(
                matches_surely(call, tool, actions, self._root) for call in bound.calls
            ):
                return bound.label
        return ""

    def missing(self) -> str:
        """Return what must still be done before the turn may end, in words for the model; empty if nothing is
        missing or the reminders are used up."""
        lacking = [bound for bound in self._rules if self._is_missing(bound)]
        if not lacking or self._reminders_left == 0:
            return ""
        self._reminders_left -= 1
        return "\n".join(
            f"Before you end, {' or '.join(map(str, bound.calls))} must succeed ({bound.label})."
            for bound in lacking
        )

    def unmet(self) -> tuple[str, ...]:
        """Return the rules that are not met at the end of the turn."""
        return tuple(bound.label for bound in self._rules if self._is_missing(bound))

    def _is_missing(self, bound: BoundRule) -> bool:
        if bound.rule.kind != "required_before_end":
            return False
        if bound.paths is not None and not any(self._edited(done, bound.paths) for done in self._done):
            return False
        return not self._succeeded(bound.calls, self._since_edit(bound.paths, bound.calls))


def _edits(call: CallPattern) -> bool:
    return call.tool in ("write_file", "edit_file", "apply_patch") or (
        call.rule is not None and call.rule.kind == "write"
    )


def _tool_of(call: CallPattern) -> str:
    """Return the tool that a pattern names; empty if several tools could match."""
    return call.tool or ("shell" if call.rule is not None and call.rule.kind == "shell" else "")


def describe_rules(rules: Iterable[ToolRule]) -> tuple[str, ...]:
    """Return the rules as sentences for the model."""
    return tuple(_sentence(rule) + (f" Reason: {rule.because}" if rule.because else "") for rule in rules)


def _sentence(rule: ToolRule) -> str:
    names = " or ".join(f"`{call}`" for call in several(getattr(rule, rule.kind))) if rule.at_most is None else ""
    match rule.kind:
        case "never_run":
            return f"Never run {names}."
        case "never_edit":
            return f"Never change {names}."
        case "needs_approval":
            return f"{names} needs the user's approval."
        case "after_edit_run":
            return f"After each edit of `{rule.paths}` {names} runs by itself; its output is added to the result."
        case "run_first":
            return f"Call {names} before anything else."
        case "only_after":
            return f"`{rule.call}` only after {names} has succeeded since the last edit."
        case "then_only":
            when = f" whose result matches `{rule.if_output}`" if rule.if_output else ""
            return f"Right after `{rule.call}`{when} call only {names}."
        case "at_most":
            return f"`{rule.call}` at most {rule.at_most} times per prompt."
        case "required_before_end":
            when = f" once you have changed `{rule.paths}`" if rule.paths else ""
            return f"Before you end, {names} must succeed{when}."
        case _:
            return f"{names} ends the turn."
