"""Hooks over HTTP: post an event to a server and interpret its response as the answer of a hook."""

import os
import re

from agent_cli.net.addresses import AddressRefused, target_of
from agent_cli.net.fetch import FetchError, fetch

from .answer import MAX_OUTPUT
from .definition import HookProcess, HttpRequest

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


async def post(request: HttpRequest, event: bytes, timeout_s: float) -> HookProcess:
    """Post an event. Only a 2xx response counts; anything else is a failed hook. The address may be on a private
    network because the user has named it. Redirects are not followed."""
    try:
        headers = {"content-type": "application/json", **_headers(request)}
        document = await fetch(
            request.url, allowed=(target_of(request.url).host,), headers=headers, content=event,
            max_bytes=MAX_OUTPUT, limit_s=timeout_s,
        )  # fmt: skip
    except (AddressRefused, FetchError) as error:
        return HookProcess(problem=f"could not be asked: {error}")
    if not 200 <= document.status < 300:
        return HookProcess(problem=f"was answered with status {document.status}")
    if document.cut:
        return HookProcess(problem=f"was answered with more than {MAX_OUTPUT // 1_000_000} MB")
    text = document.data.decode("utf-8", "replace")
    if text.strip() and not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return HookProcess(problem="got an answer that is not a JSON object")
    return HookProcess(0, text)


def _headers(request: HttpRequest) -> dict[str, str]:
    """Return the headers with the permitted variables expanded."""

    def value(found: "re.Match[str]") -> str:
        name = found[1] or found[2]
        return os.environ.get(name, "") if name in request.env else ""

    return {name.lower(): _VARIABLE.sub(value, written).strip() for name, written in request.headers}
