"""Immutable values that cross a queue or are stored in a file: messages, operations, events, records. No I/O."""
