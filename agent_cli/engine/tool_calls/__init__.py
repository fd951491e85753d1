"""Preparation, approval, execution and recording of tool calls."""
