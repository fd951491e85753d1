"""Run attempts on this machine or on a cluster."""
