"""Connections, time-outs, retries, and explanations of failures."""
