"""Answers as data: the JSON Schema of an answer, and checking an answer by it."""
