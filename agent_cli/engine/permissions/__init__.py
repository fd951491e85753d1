"""The policy in force, sandbox profiles, egress."""
