"""`agent acp`: the agent in a code editor, over the Agent Client Protocol."""

import asyncio
from typing import Annotated, Any

import typer

from agent_cli import __version__
from agent_cli.bootstrap.options import ParsedOptions, UsageError

from ...services.completion import shared, with_options
from ...services.serving import until_stopped


@with_options(*shared("model", "mode", "set", "config", "debug", "trace"))
def acp(
    word: Annotated[
        str | None, typer.Argument(metavar="[setup]", help="Set a key instead, as `agent setup` does.")
    ] = None,
    *,
    given: dict[str, Any],
) -> int:
    """Run the agent in a code editor: serve one client of the Agent Client Protocol over standard input and
    output."""
    chosen = ParsedOptions("agent", given)
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
