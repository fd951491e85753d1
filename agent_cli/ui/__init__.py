"""Front ends: consumers of the event stream. Knows no engine, only `protocol.client.Client`."""
