"""The way to the network that every room shares: proxies, whom to trust, which addresses may be reached."""
