"""JSON-RPC 2.0, one message per line, over standard streams or a socket."""
