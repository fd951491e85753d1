"""The permission policy in force, sandbox profiles and network egress."""
