"""Front ends: consumers of the event stream. They know no engine, only `protocol.client.Client`."""
