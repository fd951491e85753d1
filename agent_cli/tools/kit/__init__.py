"""Building blocks of tools: the protocol, schemas, bounded output."""
