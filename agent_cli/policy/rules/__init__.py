"""Permission rules on paths, hosts and names."""
