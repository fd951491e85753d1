"""Slash commands that only show something: the session's state, what was paid for, what has changed, what runs and
what waits."""

from typing import Literal

from agent_cli.protocol.operations import ControlJob, TakeBack, UserInput
from agent_cli.protocol.sanitize import clean

from ..text import lines
from .api import Choice, CommandContext

_JOB_ACTIONS: tuple[Literal["stop", "keep"], ...] = ("stop", "keep")
_JOBS_USAGE = "/jobs stop N ends one, /jobs keep N lets it outlive the session."


async def status(desk: CommandContext, argument: str) -> None:
    """`/status`: session, model, mode, sandbox."""
    now = desk.client.snapshot()
    facts = {
        "session": f"{now.session_id} {now.title}",
        "file": now.session_path or "not saved",
        "directory": now.cwd,
        "model": f"{now.model} {now.effort}" + (f", {now.standing_in} stands in" if now.standing_in else ""),
        "mode": now.mode,
        "sandbox": now.sandbox,
        "turns": f"{now.turns}, {'one running' if now.busy else 'idle'}, {len(now.waiting)} waiting",
        "context": f"{lines.count(now.context_tokens)} of {lines.count(now.context_window)} tokens",
        "cost": lines.money(now.totals),
    }
    desk.say("\n".join(f"  {name:<10} {lines.one_line(fact, 300)}" for name, fact in facts.items()))


async def cost(desk: CommandContext, argument: str) -> None:
    """`/cost`: tokens and money so far, as a table and as a picture."""
    from .cost_chart import drawn

    now = desk.client.snapshot()
    picture = drawn(now.totals, now.costs, desk.theme)
    desk.say("\n".join([*lines.costs(now.totals, now.costs, now.spent_today_usd), *picture]), wrap=False)


async def diff(desk: CommandContext, argument: str) -> None:
    """`/diff`: all changes since the session began."""
    from ..render.diff_view import drawn

    text = await desk.client.diff()
    if text.strip():
        desk.say("\n".join(drawn(clean(text).rstrip("\n").split("\n"), desk.theme)), wrap=False)
    else:
        desk.say("Nothing has changed.")


async def plan(desk: CommandContext, argument: str) -> None:
    """`/plan`: the model's plan."""
    desk.say("\n".join(lines.plan(desk.client.snapshot().plan, desk.theme)) or "There is no plan.")


async def jobs(desk: CommandContext, argument: str) -> None:
    """`/jobs [stop|keep N]`: commands that run in the background."""
    word, _, number = argument.partition(" ")
    for action in _JOB_ACTIONS:
        if word == action and number.strip():
            await desk.submit(ControlJob(number.strip(), action))
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


async def queue(desk: CommandContext, argument: str) -> None:
    """`/queue [TEXT]`: a prompt for afterwards; without one, what waits, to take something back."""
    if argument:
        await desk.submit(UserInput(argument))
        return
    waiting = dict.fromkeys(each.text for each in desk.client.snapshot().waiting)
    if not waiting:
        desk.say("Nothing waits. /queue TEXT sends a prompt once the turn is over.")
        return
    choices = [Choice(text, lines.one_line(text, 120)) for text in waiting]
    if taken := await desk.pick("What waits; take one back?", choices):
        await desk.submit(TakeBack(taken))
