"""Frozen values that cross a queue or reach a file: messages, operations, events, records. No I/O."""
