"""Names for plug-ins to import."""

from .kit.base import Preview, Tool, ToolContext, ToolError, ToolOutcome

__all__ = ["Preview", "Tool", "ToolContext", "ToolError", "ToolOutcome"]
