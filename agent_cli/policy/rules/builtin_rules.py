"""The modes in the order a key press cycles them, and the rules that hold before anybody writes one."""

from typing import get_args

from agent_cli.protocol.actions import Mode

from .rule import BUILT_IN_PLACE, Rule, parse_rule
from .secret_paths import secret_patterns

MODES: tuple[Mode, ...] = get_args(Mode)

BUILT_IN: tuple[Rule, ...] = tuple(
    parse_rule(f"read({path})", "ask", BUILT_IN_PLACE) for path in secret_patterns()
)
"""Files that usually hold secrets are read only with a person's consent."""
