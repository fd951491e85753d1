"""Permitted network addresses, proxies, certificates, and fetching of documents."""
