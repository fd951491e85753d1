"""Ask for an API key if no model was found or the chosen one has no key, and save it where the user decides.

The key is never shown: it goes from the terminal only into the keyring, the key file or this process.
"""

import asyncio
import sys

from agent_cli.bootstrap.setup import Setup
from agent_cli.config import api_keys
from agent_cli.config.layer import ConfigError
from agent_cli.config.schema import Provider
from agent_cli.model.types.provider_table import PROVIDERS
from agent_cli.protocol.sanitize import clean
from agent_cli.redaction.token_shapes import SHAPES
from agent_cli.ui.commands.api import Choice
from agent_cli.ui.repl.standalone_picker import choose, read_secret
from agent_cli.ui.text.theme import choose as choose_theme

_STARTS = {
    "sk-ant-": "anthropic",
    "sk-or-": "openrouter",
    "sk-": "openai",
    "AIza": "gemini",
    "gsk_": "groq",
    "xai-": "xai",
    "csk-": "cerebras",
}
"""Provider by the prefix of a key; the first match counts."""
_SHORTEST = 16
_ATTEMPTS = 2
_OTHER = "other"


def ask_for_key(setup: Setup, needed: str = "") -> bool:
    """Ask for a key and where to save it; return False if the user quits, or pastes no key twice. `needed` is the
    provider of the key; if empty, the provider is inferred from the key."""
    key = _pasted()
    provider = key and (needed or provider_of(key) or _picked_provider(setup))
    while provider:
        variable = _variable(setup, provider)
        print(f"This is {variable}, a key of {provider}.")
        match _picked_place(setup, may_be_other=not needed):
            case "":
                return False
            case place if place == _OTHER:
                provider = _picked_provider(setup)
            case place:
                if _saved(setup, place, variable, key):
                    setup.reload()
                    return True
    return False


def provider_of(key: str) -> str:
    """Return the provider of a key by its prefix; empty if unknown."""
    return _STARTS.get(_start_of(key), "")


def problem_of(key: str) -> str:
    """Return why a text cannot be a key, without quoting any of it; empty if it can be one."""
    if not key:
        return "nothing was pasted but blanks"
    if not (key.isascii() and key.isprintable()) or " " in key:
        return "a key has no blanks, line breaks or special characters"
    if len(key) < _SHORTEST:
        return "that is too short for a key"
    start = _start_of(key)
    if start and not any(shape.whole.fullmatch(key) for shape in SHAPES if start in shape.starts):
        return f"it begins like a key of {_STARTS[start]}, but is cut off or has characters that no such key has"
    return ""


def _start_of(key: str) -> str:
    return next((start for start in _STARTS if key.startswith(start)), "")


def _pasted() -> str:
    """Return the text that the user pastes once it can be a key; empty for none."""
    for _ in range(_ATTEMPTS):
        typed = asyncio.run(read_secret("Paste an API key to continue (Enter to quit): "))
        if not typed:
            return ""
        key = typed.strip()
        if not (problem := problem_of(key)):
            return key
        print(f"agent: {problem}", file=sys.stderr)
    return ""


def _picked_provider(setup: Setup) -> str:
    names = [name for name, spec in PROVIDERS.items() if spec.default_model]
    rows = [Choice(name, f"{at:2} {name}", _variable(setup, name)) for at, name in enumerate(names, start=1)]
    return asyncio.run(choose("Which provider is the key of?", rows, choose_theme(setup.config.ui)))


def _variable(setup: Setup, provider: str) -> str:
    """Return the variable that contains the provider's key."""
    chosen = setup.config.providers.get(provider, Provider()).api_key_env or ""
    is_name = chosen.isascii() and chosen.isidentifier()
    return chosen if is_name else PROVIDERS[provider].key_vars[0]


def _picked_place(setup: Setup, *, may_be_other: bool) -> str:
    places = [
        *([("keyring", "the system's keyring")] if api_keys.keyring_works() else []),
        ("file", clean(str(setup.config_dir / api_keys.KEY_FILE))),
        ("session", "nowhere: use it until the program ends"),
        *([(_OTHER, "it is a key of another provider")] if may_be_other else []),
    ]
    rows = [Choice(value, label, key=str(at)) for at, (value, label) in enumerate(places, start=1)]
    return asyncio.run(choose("Where to save it?", rows, choose_theme(setup.config.ui)))


def _saved(setup: Setup, place: str, variable: str, key: str) -> bool:
    """Save a key; on failure print the reason and return False."""
    path = setup.config_dir / api_keys.KEY_FILE
    try:
        match place:
            case "keyring":
                api_keys.save_in_keyring(path, variable, key)
                print(f"Saved in the keyring; {path} says so.")
            case "file":
                api_keys.save_key(path, variable, key)
                print(f"Saved in {path}.")
            case _:
                api_keys.use_unsaved_key(variable, key)
    except (ConfigError, api_keys.KeyringError) as error:
        print(f"agent: not saved: {error}", file=sys.stderr)
        return False
    return True
