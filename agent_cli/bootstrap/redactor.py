"""The redactor of a program run: it knows secrets of the environment, the key file and the configuration, and
secrets of earlier runs."""

import os

from agent_cli.config.api_keys import KeyedEnvironment, keyed
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_redaction import environment_redactor
from agent_cli.store.state.known_secrets import KnownSecretsFile

from .setup import Setup


def redactor_of(setup: Setup, env: KeyedEnvironment | None = None) -> Redactor:
    """Return a redactor for the known present and past secrets of this user's environment and configuration, and
    for text with the form of a secret."""
    keys = (env or keyed(os.environ, setup.config_dir)).held()
    kept = KnownSecretsFile(setup.state / "known-secrets.json")
    return environment_redactor(os.environ, keys, setup.config, kept.recognizer)
