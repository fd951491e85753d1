"""Wire formats: request encoding and stream decoding. No sockets."""
