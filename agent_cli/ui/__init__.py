"""Front ends that consume the event stream. They depend on `protocol.client.Client`, never on the engine."""
