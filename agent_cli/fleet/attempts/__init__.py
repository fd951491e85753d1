"""Run one attempt: tree, setup, agent, patch, verify."""
