"""Servers' questions, put to the user in the session's own dialog."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from agent_cli.protocol.sanitize import visible
from agent_cli.tools.kit.base import Question

from ..types.client import Elicitation, ElicitationAnswer, FormField

_DECLINE = "Decline"
_SKIP = "Skip"
_OPENED = "Done"
_TRIES = 3
_YES, _NO = ("yes", "y", "true"), ("no", "n", "false")


def asked_in_session(ask: Question | None) -> Callable[[str, Elicitation], Awaitable[ElicitationAnswer]] | None:
    """Return a function that puts servers' questions to the user; None if nobody can answer."""
    if ask is None:
        return None

    async def elicit(server: str, asked: Elicitation) -> ElicitationAnswer:
        return await _by_address(ask, server, asked) if asked.url else await _by_form(ask, server, asked)

    return elicit


async def _by_address(ask: Question, server: str, asked: Elicitation) -> ElicitationAnswer:
    """Show the full address. The user opens it; we never do."""
    question = (
        f"The MCP server {server} asks you to open an address: {visible(asked.message)}\n{visible(asked.url)}\n"
        "Open it only if you expect this."
    )
    said = await ask(question, (_OPENED, _DECLINE))
    return ElicitationAnswer("accept" if said == _OPENED else "decline")


async def _by_form(ask: Question, server: str, asked: Elicitation) -> ElicitationAnswer:
    """Ask for one value after another; no answer is sent until all are complete."""
    head = f"The MCP server {server} asks: {visible(asked.message)}"
    if not asked.fields:
        said = await ask(head, ("Accept", _DECLINE))
        return ElicitationAnswer("accept" if said == "Accept" else "decline")
    values: dict[str, Any] = {}
    for field in asked.fields:
        taken, value = await _value(ask, head, field)
        if not taken:
            return ElicitationAnswer("decline")
        if value is not None:
            values[field.name] = value
        head = f"The MCP server {server} asks further"
    return ElicitationAnswer("accept", values)


async def _value(ask: Question, head: str, field: FormField) -> tuple[bool, Any]:
    """Return True if the user answered, and the value; None for a skipped field."""
    about = visible(field.title or field.name) + (f" ({visible(field.description)})" if field.description else "")
    default = f" [{visible(field.default)}]" if field.default else ""
    options = ("yes", "no") if field.kind == "boolean" else field.options
    decline, skip = _other_than(options, _DECLINE), _other_than(options, _SKIP)
    last = (decline,) if field.required else (skip, decline)
    problem = ""
    for _ in range(_TRIES):
        said = (await ask(f"{head}\n{about}{default}{problem}", (*options, *last))).strip()
        if said in (decline, "") and not (field.default and not said):
            return False, None
        if said == skip and not field.required:
            return True, None
        try:
            return True, _converted(field, said or field.default)
        except ValueError as error:
            problem = f"\n{error}"
    return False, None


def _other_than(options: tuple[str, ...], word: str) -> str:
    """Return a word that is none of the server's own options."""
    return word if word not in options else f"{word} the question"


def _converted(field: FormField, said: str) -> Any:
    """Convert the user's text to a value of the field."""
    match field.kind:
        case "boolean":
            return _truth(said)
        case "integer":
            return _number(said, int)
        case "number":
            return _number(said, float)
        case "choice" if said not in field.options:
            raise ValueError(f"Choose one of {', '.join(field.options)}.")
        case "choices" if said in field.options:  # it may have a comma itself
            return [said]
        case "choices":
            chosen = [part.strip() for part in said.split(",")]
            if unknown := [part for part in chosen if part not in field.options]:
                raise ValueError(f"{unknown[0]} is not one of {', '.join(field.options)}.")
            return chosen
        case _:
            return said


def _truth(said: str) -> bool:
    if said.lower() not in (*_YES, *_NO):
        raise ValueError("Answer yes or no.")
    return said.lower() in _YES


def _number(said: str, kind: Callable[[str], int | float]) -> int | float:
    try:
        number = kind(said)
    except ValueError as error:
        raise ValueError(f"“{said}” is not a number.") from error
    if not math.isfinite(number):  # JSON has no such number
        raise ValueError(f"“{said}” is not a number.")
    return number
