"""Resources of servers, referred to in a prompt as `@SERVER:URI`, and prompts, called as `/SERVER:NAME`."""

from collections.abc import Awaitable, Callable, Iterator, Sequence

from agent_cli.protocol.actions import EXTERNAL_SOURCE
from agent_cli.tools.kit.base import ToolError, ToolOutcome

from .servers import Servers
from .types.client import Client, ServerError
from .types.offer import CallOutcome, PromptDefinition

_AFTER = ".,;:!?)]}*_'"
"""Characters that may follow an address in a sentence."""


class ServerDocuments:
    """The resources and prompts of a session's servers."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def resources(self) -> Iterator[str]:
        """Yield the known names that can follow `@`, including URI templates."""
        for connection in self._servers.usable():
            offer = connection.known.offer.resources if connection.known else ()
            yield from (f"{connection.definition.name}:{resource.uri}" for resource in offer)

    def find(self, name: str) -> tuple[str, str] | None:
        """Return server and URI of a reference `SERVER:URI` in a prompt, without the punctuation that follows it;
        None if no server has that name."""
        server, _, uri = name.partition(":")
        connection = next((each for each in self._servers.usable() if each.definition.name == server), None)
        if connection is None or not uri.strip(_AFTER):
            return None
        known = {resource.uri for resource in connection.known.offer.resources} if connection.known else set()
        while uri not in known and uri[-1] in _AFTER:
            uri = uri[:-1]
        return server, uri

    async def read(self, server: str, uri: str) -> ToolOutcome:
        """Read a resource; its text is untrusted text of the server.

        Raises:
            ToolError: it cannot be read.
        """
        outcome = await self._asked(server, lambda client: client.read_resource(uri))
        source = f"{EXTERNAL_SOURCE}{server}/{uri}"
        return ToolOutcome(text=outcome.text, images=outcome.images, untrusted=source)

    def prompts(self) -> Iterator[tuple[str, PromptDefinition]]:
        """Yield the prompts whose names have no white space, each with its name."""
        for connection in self._servers.usable():
            for prompt in connection.known.offer.prompts if connection.known else ():
                name = f"{connection.definition.name}:{prompt.name}"
                if name.isprintable() and not any(map(str.isspace, name)):
                    yield name, prompt

    async def prompt(self, name: str, words: Sequence[str]) -> str | None:
        """Return the text of a prompt, with its arguments by position; the last one takes the rest. None if there
        is no such prompt.

        Raises:
            ToolError: an argument is missing, or the server does not return it.
        """
        definition = dict(self.prompts()).get(name)
        if definition is None:
            return None
        wanted = [argument.name for argument in definition.arguments]
        given = [*words[: len(wanted) - 1], " ".join(words[len(wanted) - 1 :])] if wanted else []
        arguments = {key: value for key, value in zip(wanted, given, strict=False) if value}
        missing = [each.name for each in definition.arguments if each.required and each.name not in arguments]
        if missing:
            raise ToolError(f"it needs {usage(definition)}")
        server = name.partition(":")[0]
        return (await self._asked(server, lambda client: client.get_prompt(definition.name, arguments))).text

    async def _asked(self, server: str, ask: Callable[[Client], Awaitable[CallOutcome]]) -> CallOutcome:
        """Send a read-only request to a server; once more if it has died."""
        try:
            return await self._servers.connections[server].read(ask)
        except ServerError as error:
            raise ToolError(str(error)) from error


def usage(prompt: PromptDefinition) -> str:
    """Return the usage of a prompt's arguments, such as `NAME [STYLE]`."""
    return " ".join(each.name.upper() if each.required else f"[{each.name.upper()}]" for each in prompt.arguments)
