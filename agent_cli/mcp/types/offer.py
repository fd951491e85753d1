"""Offers and responses of a server."""

import hashlib
from functools import cached_property
from typing import Any

import msgspec

from agent_cli.protocol.messages import Image


class ToolDefinition(msgspec.Struct, frozen=True, dict=True):
    """A tool as described by its server."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}
    """Hints from an untrusted source, such as `readOnlyHint`."""

    @cached_property
    def digest(self) -> str:
        """Hash of everything about it that is shown to the model or the user."""
        return hashlib.sha256(msgspec.json.encode(msgspec.to_builtins(self), order="sorted")).hexdigest()[:32]

    @property
    def says_read_only(self) -> bool:
        """True if its server says that a call changes nothing."""
        return self.annotations.get("readOnlyHint") is True

    @property
    def may_be_repeated(self) -> bool:
        """True if its server says that a repeated call has no further effect."""
        return self.says_read_only or self.annotations.get("idempotentHint") is True


class Entry(msgspec.Struct, frozen=True):
    """A tool under the name used by the model."""

    name: str
    """Name for the model."""
    server: str
    tool: ToolDefinition


class PromptArgument(msgspec.Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class PromptDefinition(msgspec.Struct, frozen=True):
    """A prompt that a server offers."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ResourceDefinition(msgspec.Struct, frozen=True):
    """A document that a server offers."""

    uri: str
    """Its address, or a template of addresses."""


class Offer(msgspec.Struct, frozen=True):
    """Everything that a server offers, tools by name."""

    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()
    resources: tuple[ResourceDefinition, ...] = ()
    instructions: str = ""
    """The server's instructions for the model, at most 2 KB."""
    server: str = ""
    """Name and version the server reports."""
    protocol: str = ""
    """The protocol revision in use, such as `2025-11-25`."""


class CallOutcome(msgspec.Struct, frozen=True):
    """The result of a call, a resource or a prompt."""

    text: str = ""
    images: tuple[Image, ...] = ()
    is_error: bool = False
