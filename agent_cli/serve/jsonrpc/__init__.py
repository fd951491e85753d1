"""JSON-RPC 2.0, one message a line, over standard streams or a socket."""
