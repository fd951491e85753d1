"""The message for a user who has neither a key nor a local server yet."""

import sys

from agent_cli.model.routing import MissingKey, NoModel
from agent_cli.protocol.stop_reason import EXIT_CODES

_PAGE = """\
agent: no model can be used yet: no key is set, and no local server answers.
Three ways to go on:

  a key           export ANTHROPIC_API_KEY=…
                  (or OPENAI_API_KEY, OPENROUTER_API_KEY, GEMINI_API_KEY …);
                  or start `agent` in a terminal and paste the key there
  a local server  start Ollama, LM Studio, llama.cpp or vLLM with a model;
                  the first model it offers is used
  just a look     agent demo

`agent doctor` checks this machine, and `agent help getting-started` begins at
the beginning. Every provider and variable: `agent help providers`."""
_NO_KEY = """\
agent: {error}
Export the variable, or put it into keys.yaml beside the configuration file;
--model chooses another provider. `agent doctor` checks this machine, and
`agent help providers` lists every variable."""


def cannot_start(error: NoModel | MissingKey) -> int:
    """Print what is missing and what to do; return the exit code."""
    print(_PAGE if isinstance(error, NoModel) else _NO_KEY.format(error=error), file=sys.stderr)
    return EXIT_CODES["auth_error"]
