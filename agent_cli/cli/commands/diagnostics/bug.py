"""`agent bug`: a bug report about a saved session, as `/bug` writes it in a conversation."""

import asyncio
from contextlib import aclosing
from typing import Annotated

import typer

from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.bootstrap.setup import Setup
from agent_cli.store.session_file import StoreError

from ...services.completion import session_ids
from ..sessions.output import emit


def bug_command(
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="[ID]",
            help="Session, by the beginning of its id or by its title; default: the last one of this directory.",
            autocompletion=session_ids,
        ),
    ] = "",
) -> int:
    """Write a bug report to a file, with secrets masked. Nothing is sent."""
    setup = Setup()
    emit((asyncio.run(_write(setup, identifier))).split("\n"))
    return 0


async def _write(setup: Setup, identifier: str) -> str:
    from agent_cli.sandbox.process.runner import ProcessRunner

    from ...services.bug_report import ReportedSession, saved, write_report

    path = setup.sessions.find(identifier) if identifier else setup.sessions.last(setup.root)
    session = saved(path) if path is not None else ReportedSession()
    async with aclosing(ProcessRunner()) as processes:
        try:
            return await write_report(setup, processes, redactor_of(setup), session, {"written by": "agent bug"})
        except OSError as error:
            raise StoreError(f"no report was written: {error}") from error
