"""agent-cli: a terminal coding agent, and a library that embeds it.

    from agent_cli import Agent, run

The version is a literal so that asking for it costs nothing; the names of the library are loaded when they are
first used.
"""

TYPE_CHECKING = False
"""As of `typing`, which takes long to import."""
if TYPE_CHECKING:
    from .sdk.agent import Agent, run
    from .sdk.approvals import Allow, ApprovalCall, Deny, Question
    from .sdk.budget import Budget
    from .sdk.hook import Hook, HookEvent
    from .sdk.options import AgentError
    from .sdk.result import Result
    from .sdk.tool import tool

__version__ = "0.1.0"
__all__ = [
    "Agent", "AgentError", "Allow", "ApprovalCall", "Budget", "Deny", "Hook", "HookEvent", "Question", "Result",
    "run", "tool",
]  # fmt: skip

_HOMES = {
    "Agent": "agent",
    "AgentError": "options",
    "Allow": "approvals",
    "ApprovalCall": "approvals",
    "Budget": "budget",
    "Deny": "approvals",
    "Hook": "hook",
    "HookEvent": "hook",
    "Question": "approvals",
    "Result": "result",
    "run": "agent",
    "tool": "tool",
}
"""The module of each name."""


if not TYPE_CHECKING:  # which would take every misspelled name for an object

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(f"{__name__}.sdk.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
