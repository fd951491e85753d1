"""Structured answers: the JSON Schema of an answer, and validation against it."""
