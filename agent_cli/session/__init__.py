"""One conversation: records, history, projection, costs, event bus. Below the engine."""
