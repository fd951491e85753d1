"""Definitions of sub-agents in files of this agent and of others."""
