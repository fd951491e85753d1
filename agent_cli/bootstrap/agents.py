"""The types of sub-agents that files of the user and the project define."""

from typing import TYPE_CHECKING

from agent_cli.protocol.agent_types import AgentType

from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.extensions.agents.find import AgentFile, FoundAgents


def agent_types(setup: Setup) -> tuple[AgentType, ...]:
    """Return the available types; nothing is imported if no folder defines any."""
    return found_agents(setup).types if setup.places_of("agents") else ()


def found_agents(setup: Setup) -> "FoundAgents":
    """Return the definitions in files; they are read once, until the configuration is read again."""
    return setup.once(_found)


def _found(setup: Setup) -> "FoundAgents":
    from agent_cli.extensions.agents.find import find_agents

    def trusts(file: "AgentFile") -> bool:
        return file.place.origin != "project" or setup.trust.knows(file.trust_place, file.content)

    return find_agents(setup.places_of("agents"), trusts)
