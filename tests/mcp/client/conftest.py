"""The fixture that all tests of the client share."""

from tests.mcp.client.world import lab

__all__ = ["lab"]
