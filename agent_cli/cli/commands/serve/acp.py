"""`agent acp`: the agent in a code editor, over the Agent Client Protocol."""

import asyncio
from typing import Annotated, Any, get_args

import typer

from agent_cli import __version__
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.protocol.actions import Mode

from ...services.completion import model_names, option
from ...services.serving import until_stopped


def acp(
    word: Annotated[
        str | None, typer.Argument(metavar="[setup]", help="Set a key instead, as `agent setup` does.")
    ] = None,
    model: Annotated[
        str | None,
        option("--model", "-m", text="Model to use.", value="PROVIDER/MODEL", offered=model_names),
    ] = None,
    mode: Annotated[
        str | None, option("--mode", text="What runs without asking.", value="|".join(get_args(Mode)))
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a configuration key (repeatable).")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Read an additional configuration file.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Write a log of each session.")] = False,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace", metavar="FILE", help="Write a trace of all sessions: OpenTelemetry as JSON lines."
        ),
    ] = None,
) -> int:
    """Run the agent in a code editor: serve one client of the Agent Client Protocol over standard input and
    output."""
    given: dict[str, Any] = {
        "model": model, "mode": mode, "set": values, "config": config, "debug": debug, "trace": trace,
    }  # fmt: skip
    chosen = ParsedOptions("agent", {key: value for key, value in given.items() if value})
    if word == "setup":  # editors start the login with one additional word on the command line
        from .key_setup import set_up

        return set_up(chosen)
    if word is not None:
        raise UsageError(f"unexpected {word!r}; `agent acp` takes options only, or `setup`")
    from .host import check_trace

    check_trace(chosen)
    return asyncio.run(_serve(chosen))


async def _serve(chosen: ParsedOptions) -> int:
    from agent_cli.serve.acp.agent import serve
    from agent_cli.serve.jsonrpc.stdio import standard_channel

    from .editor import EditorHost

    async with standard_channel() as channel:
        return await until_stopped(serve(channel, EditorHost(chosen), __version__))
