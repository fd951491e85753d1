"""Slash commands: one table that drives completion, `/help` and what happens.

A command that is not in the table is never sent to the model; the nearest names are shown instead. Only a
first word like `/name` counts as a command, so a prompt may begin with a path.
"""

import difflib
import re
from typing import Literal, get_args

from ..config.schema import Effort
from ..protocol.actions import Mode
from ..protocol.operations import ChangeSettings, ControlJob, Redo, Undo, UserInput
from ..protocol.sanitize import clean
from . import conversation, lines
from .desk import Command, Desk, Leaving

_COMMAND = re.compile(r"/([A-Za-z?][\w-]*)(?:\s+(.*))?$", re.DOTALL)
_MAX_ROWS = 40

MODES: tuple[Mode, ...] = get_args(Mode)
CYCLED: tuple[Mode, ...] = ("plan", "ask", "auto-edit")
"""The modes that a key goes through."""
_BUILT_IN = "built in"
EFFORTS: tuple[str, ...] = get_args(Effort)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument of a command line, or None for anything else."""
    found = _COMMAND.match(text.strip())
    return (found.group(1).lower(), (found.group(2) or "").strip()) if found else None


def is_command(text: str) -> bool:
    """Whether `text` is a line for a command of the table."""
    parsed = parse(text)
    return parsed is not None and ALIASES.get(parsed[0], parsed[0]) in TABLE


async def run(desk: Desk, name: str, argument: str) -> None:
    """Carry out one command, or say what is wrong with it."""
    command = TABLE.get(ALIASES.get(name, name))
    if command is None:
        near = difflib.get_close_matches(name, TABLE, n=3, cutoff=0.5)
        hint = "Did you mean " + ", ".join(f"/{other}" for other in near) + "?" if near else "/help lists them."
        desk.say(f"There is no command /{name}. {hint}")
    elif command.idle and desk.client.snapshot().busy:
        desk.say(f"/{command.name} has to wait: a turn is running. Esc stops it.")
    else:
        await command.run(desk, argument)


async def _help(desk: Desk, argument: str) -> None:
    rows = [(f"/{c.name} {c.arguments}".strip(), c.help) for c in TABLE.values()]
    width = max(len(left) for left, _ in rows)
    out = [f"  {left:<{width}}  {right}" for left, right in rows]
    keys = (
        "Enter sends, Ctrl-J or Alt-Enter or \\ Enter breaks the line, Ctrl-G opens $EDITOR, Ctrl-R searches.",
        "While a turn runs: Enter steers it, Tab queues for afterwards, Esc or Ctrl-C stops it.",
        "Shift-Tab changes the mode, Ctrl-O shows folded output, Ctrl-V pastes a picture.",
        "@ names a file, a folder or an address to bring along, !command runs it yourself.",
    )
    desk.say("\n".join([*out, *keys]))


_NO_MATCH = "No known model has that in its name. Any name of a provider can be used: /model PROVIDER/MODEL."


async def _model(desk: Desk, argument: str) -> None:
    if not argument:
        known = desk.host.models("")
        rows = [f"  {lines.one_line(name)}" for name in known[:_MAX_ROWS]]
        if len(known) > _MAX_ROWS:
            rows.append(f"  … and {len(known) - _MAX_ROWS} more; /model WORD shows those with it in their name")
        desk.say("\n".join([*rows, f"Model: {lines.one_line(desk.client.snapshot().model)}"]))
        return
    found = desk.host.models(argument)
    if argument not in found and len(found) != 1 and "/" not in argument:
        rows = [f"  {lines.one_line(name)}" for name in found[:_MAX_ROWS]]
        desk.say("\n".join(["Several models match:" if rows else _NO_MATCH, *rows]))
        return
    name = found[0] if len(found) == 1 and "/" not in argument else argument
    await desk.client.submit(ChangeSettings(model=name))


async def _mode(desk: Desk, argument: str) -> None:
    for mode in MODES:
        if argument == mode:
            await desk.client.submit(ChangeSettings(mode=mode))
            return
    desk.say(f"Mode: {desk.client.snapshot().mode}. Choose one of: {', '.join(MODES)}.")


async def _effort(desk: Desk, argument: str) -> None:
    if argument in EFFORTS:
        await desk.client.submit(ChangeSettings(effort=argument))
    else:
        now = desk.client.snapshot().effort or "the model's default"
        desk.say(f"Effort: {now}. Choose one of: {', '.join(EFFORTS)}.")


async def _permissions(desk: Desk, argument: str) -> None:
    rules = desk.host.permissions()
    own = [rule for rule in rules if rule.place != _BUILT_IN]
    rows = [
        f"  {rule.verdict:<5} {lines.one_line(rule.rule)}  {desk.theme.paint('muted', lines.one_line(rule.place))}"
        for rule in own
    ]
    count = len(rules) - len(own)
    rows += [f"  {count} built-in rules on secrets: `agent permissions list` shows them"] if count else []
    desk.say("\n".join([f"Mode {desk.client.snapshot().mode}; deny beats ask beats allow.", *rows]))


async def _undo(desk: Desk, argument: str) -> None:
    if argument and not (argument.isdecimal() and int(argument) > 0):
        desk.say("/undo takes a number of turns.")
        return
    turns, there = int(argument or "1"), len(desk.client.rewind_points())
    if 0 < there < turns:
        desk.say(f"There {'is' if there == 1 else 'are'} only {there} turn{'s' * (there != 1)} to take back.")
    await desk.client.submit(Undo(turns))


async def _redo(desk: Desk, argument: str) -> None:
    await desk.client.submit(Redo())


async def _retry(desk: Desk, argument: str) -> None:
    await desk.client.submit(UserInput(""))


async def _status(desk: Desk, argument: str) -> None:
    now = desk.client.snapshot()
    facts = {
        "session": f"{now.session_id} {now.title}",
        "file": now.session_path or "not saved",
        "directory": now.cwd,
        "model": f"{now.model} {now.effort}" + (f", {now.standing_in} stands in" if now.standing_in else ""),
        "mode": now.mode,
        "sandbox": now.sandbox,
        "turns": f"{now.turns}, {'one running' if now.busy else 'idle'}, {len(now.queued)} queued",
        "context": f"{lines.count(now.context_tokens)} of {lines.count(now.context_window)} tokens",
        "cost": lines.money(now.totals),
    }
    desk.say("\n".join(f"  {name:<10} {lines.one_line(fact, 300)}" for name, fact in facts.items()))


async def _cost(desk: Desk, argument: str) -> None:
    now = desk.client.snapshot()
    desk.say("\n".join(lines.costs(now.totals, now.costs, now.spent_today_usd)))


async def _diff(desk: Desk, argument: str) -> None:
    text = await desk.client.diff()
    if text.strip():
        desk.say("\n".join(lines.diff(clean(text).rstrip("\n").split("\n"), desk.theme)), wrap=False)
    else:
        desk.say("Nothing has changed.")


async def _plan(desk: Desk, argument: str) -> None:
    desk.say("\n".join(lines.plan(desk.client.snapshot().plan, desk.theme)) or "There is no plan.")


_JOB_ACTIONS: tuple[Literal["stop", "keep"], ...] = ("stop", "keep")


_JOBS_USAGE = "/jobs stop N ends one, /jobs keep N lets it outlive the session."


async def _jobs(desk: Desk, argument: str) -> None:
    word, _, number = argument.partition(" ")
    for action in _JOB_ACTIONS:
        if word == action and number.strip():
            await desk.client.submit(ControlJob(number.strip(), action))
            return
    if word in _JOB_ACTIONS:
        desk.say(f"/jobs {word} needs the number of a job; /jobs lists them. {_JOBS_USAGE}")
        return
    if word:
        desk.say(f"/jobs cannot {lines.one_line(word, 40)}. {_JOBS_USAGE}")
        return
    rows = []
    for job in desk.client.snapshot().jobs:
        facts = desk.theme.paint("muted", f"{job.state}, {lines.seconds(job.runtime_s)}")
        rows.append(f"  {job.id:>2}  {lines.one_line(job.command, 100)}  {facts}")
        if job.log:
            rows.append(desk.theme.paint("muted", f"      {clean(job.log)}"))
    desk.say("\n".join([*rows, _JOBS_USAGE]) if rows else "No command runs in the background.")


async def _sessions(desk: Desk, argument: str) -> None:
    rows = []
    for line in desk.host.sessions()[:_MAX_ROWS]:
        cost = "" if line.cost_usd is None else f"${line.cost_usd:.2f}"
        facts = f"{line.when} · {line.turns} turns {cost}".rstrip()
        rows.append(f"  {line.id}  {lines.one_line(line.title, 80)}  {desk.theme.paint('muted', clean(facts))}")
    desk.say("\n".join(rows) or "There are no saved sessions here.")


async def _resume(desk: Desk, argument: str) -> None:
    if not argument:
        await _sessions(desk, "")
        desk.say("/resume ID opens one; the first characters are enough.")
        return
    found = [line.id for line in desk.host.sessions() if line.id.startswith(argument)]
    if len(found) == 1:
        desk.leave(Leaving("resume", found[0]))
    else:
        desk.say("No session begins with that." if not found else f"{len(found)} sessions begin with that.")


async def _new(desk: Desk, argument: str) -> None:
    desk.leave(Leaving("new"))


async def _quit(desk: Desk, argument: str) -> None:
    desk.leave(Leaving("quit"))


_ROWS = (
    Command("help", "", "this list", _help),
    Command("model", "[NAME]", "show or change the model", _model, lambda desk: desk.host.models("")),
    Command("mode", "[MODE]", "show or change what is allowed without asking", _mode, lambda desk: MODES),
    Command("effort", "[LEVEL]", "how hard the model thinks", _effort, lambda desk: EFFORTS),
    Command("permissions", "", "the rules in force", _permissions),
    Command("undo", "[N]", "take back the last turns and their file changes", _undo),
    Command("redo", "", "bring back what the last undo took away", _redo),
    Command("retry", "", "carry on, or send the last request again", _retry, idle=True),
    Command("diff", "", "all changes since the session began", _diff),
    Command("plan", "", "the model's plan", _plan),
    Command(
        "jobs",
        "[stop|keep N]",
        "commands that run in the background",
        _jobs,
        lambda desk: (f"{action} {job.id}" for job in desk.client.snapshot().jobs for action in _JOB_ACTIONS),
    ),
    Command("status", "", "session, model, mode, sandbox", _status),
    Command("cost", "", "tokens and money so far", _cost),
    *conversation.COMMANDS,
    Command("sessions", "", "saved sessions of this directory", _sessions),
    Command(
        "resume",
        "[ID]",
        "open a saved session",
        _resume,
        lambda desk: (s.id for s in desk.host.sessions()),
        idle=True,
    ),
    Command("new", "", "start a new session", _new, idle=True),
    Command("quit", "", "leave", _quit),
)
TABLE: dict[str, Command] = {command.name: command for command in _ROWS}
ALIASES = {"?": "help", "exit": "quit", "q": "quit", "clear": "new", "models": "model", "usage": "cost"}
