"""Wire formats: encode a request, decode a stream. No sockets."""
