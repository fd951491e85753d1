"""The modes in the order a key press cycles them, and the rules that hold before anybody writes one."""

from typing import get_args

from ..protocol.actions import Mode
from .rules import Rule, parse_rule

MODES: tuple[Mode, ...] = get_args(Mode)

_SECRETS = (
    "**/.env", "**/.env.local", "**/.env.production", "**/*.pem", "**/id_rsa", "**/id_ed25519",
    "**/.netrc", "**/.aws/credentials", "**/.ssh/**", "**/.git-credentials",
)  # fmt: skip

BUILT_IN: tuple[Rule, ...] = tuple(parse_rule(f"read({path})", "ask", "built in") for path in _SECRETS)
"""Files that usually hold secrets are read only with a person's consent."""
