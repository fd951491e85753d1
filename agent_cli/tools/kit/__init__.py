"""What tools are made of: the protocol, schemas, bounded output."""
