"""What somebody reads who has neither a key nor a local server yet."""

import sys

from ..model.providers import MissingKey, NoModel
from ..protocol.stop import EXIT_CODES

_PAGE = """\
agent: no model can be used yet. Three ways to go on:

  a key           export ANTHROPIC_API_KEY=…   (or OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY …)
  a local server  start Ollama, LM Studio, llama.cpp or vLLM, then agent -m ollama/MODEL
  just a look     agent demo

docs/providers.md has every provider and variable; `agent doctor` checks this machine."""


def cannot_start(error: NoModel | MissingKey) -> int:
    """Say what is missing and what to do; returns the exit code."""
    print(_PAGE if isinstance(error, NoModel) else f"agent: {error}", file=sys.stderr)
    return EXIT_CODES["auth_error"]
