"""Slash commands that show the state of the session: settings, costs, changes, plan, background commands and
queued prompts."""

from contextlib import aclosing
from typing import Literal

from agent_cli.protocol.agent_types import ENDED
from agent_cli.protocol.operations import ControlJob, TakeBack, UserInput
from agent_cli.protocol.sanitize import clean

from ..text import lines
from .api import Choice, CommandContext

_JOB_ACTIONS: tuple[Literal["stop", "keep"], ...] = ("stop", "keep")
_JOBS_USAGE = "/jobs stop N ends one, /jobs keep N keeps it running after the session."


async def status(context: CommandContext, argument: str) -> None:
    """`/status`: show session, model, mode and sandbox."""
    now = context.client.snapshot()
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
    if now.agents:
        at_work = sum(agent.state not in ENDED for agent in now.agents)
        facts["sub-agents"] = f"{at_work} running, {len(now.agents) - at_work} ended"
    context.say("\n".join(f"  {name:<10} {lines.one_line(fact, 300)}" for name, fact in facts.items()))


async def cost(context: CommandContext, argument: str) -> None:
    """`/cost`: show tokens and money so far, as a table and as a chart."""
    from .cost_chart import render_chart

    now, width = context.client.snapshot(), context.columns
    table = lines.costs(now.totals, now.costs, now.spent_today_usd, width)
    picture = render_chart(now.totals, now.costs, context.theme, width)
    context.say("\n".join([*table, *picture]), wrap=False)


async def diff(context: CommandContext, argument: str) -> None:
    """`/diff`: show all changes since the session began."""

    from ..render.diff_view import render_diff

    text = await context.client.diff()
    if text.strip():
        context.say(
            "\n".join(render_diff(clean(text).rstrip("\n").split("\n"), context.theme, is_named=True)), wrap=False
        )
    else:
        context.say("Nothing has changed.")


async def review(context: CommandContext, argument: str) -> None:
    """`/review`: report findings about a change, outside the conversation."""
    async with aclosing(context.host.review(argument)) as found:
        async for line in found:
            context.say(line)


async def plan(context: CommandContext, argument: str) -> None:
    """`/plan`: show the model's plan."""
    rows = lines.plan(context.client.snapshot().plan, context.theme, context.columns)
    context.say("\n".join(rows) or "There is no plan.")


async def jobs(context: CommandContext, argument: str) -> None:
    """`/jobs [stop|keep N]`: list or control the commands that run in the background."""
    word, _, number = argument.partition(" ")
    for action in _JOB_ACTIONS:
        if word == action and number.strip():
            await context.submit(ControlJob(number.strip(), action))
            return
    if word in _JOB_ACTIONS:
        context.say(f"/jobs {word} needs the number of a job; /jobs lists them. {_JOBS_USAGE}")
        return
    if word:
        context.say(f"/jobs does not know “{lines.one_line(word, 40)}”. {_JOBS_USAGE}")
        return
    rows = []
    for job in context.client.snapshot().jobs:
        facts = context.theme.paint("muted", f"{job.state}, {lines.seconds(job.runtime_s)}")
        rows.append(f"  {job.id:>2}  {lines.one_line(job.command, 100)}  {facts}")
        if job.log:
            rows.append(context.theme.paint("muted", f"      {clean(job.log)}"))
    context.say("\n".join([*rows, _JOBS_USAGE]) if rows else "No command runs in the background.")


async def queue(context: CommandContext, argument: str) -> None:
    """`/queue [TEXT]`: queue a prompt for after the turn; without a text, list the queued prompts and take one
    back."""
    if argument:
        await context.submit(UserInput(argument))
        return
    waiting = dict.fromkeys(each.text for each in context.client.snapshot().waiting)
    if not waiting:
        context.say("Nothing waits. /queue TEXT sends a prompt once the turn is over.")
        return
    choices = [Choice(text, lines.one_line(text, 120)) for text in waiting]
    if taken := await context.pick("What waits; take one back?", choices):
        await context.submit(TakeBack(taken))
