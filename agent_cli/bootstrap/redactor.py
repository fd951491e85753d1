"""The redactor of a program's run: what the environment, the key file and the configuration hold, and what was a
secret in earlier runs."""

import os

from agent_cli.config.api_keys import KeyedEnvironment, keyed
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_redaction import environment_redactor
from agent_cli.store.state.known_secrets import KnownSecretsFile

from .setup import Setup


def redactor_of(setup: Setup, env: KeyedEnvironment | None = None) -> Redactor:
    """Masks what this user's environment and configuration know as secret or once knew, and what is shaped like
    one."""
    keys = (env or keyed(os.environ, setup.config_dir)).held()
    kept = KnownSecretsFile(setup.state / "known-secrets.json")
    return environment_redactor(os.environ, keys, setup.config, kept.recognizer)
