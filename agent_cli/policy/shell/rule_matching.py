"""Match rules against simple commands. Deny and ask rules match any form the command may take, allow rules only
the written form, and only while nothing in the session has changed what its name means.
"""

import re

import msgspec

from ..rules.path_verdict import Policy
from ..rules.rule import Kind, Rule, matches_words
from . import destructive
from .parser import SimpleCommand
from .readonly_commands import git_extras_are_known
from .risky_options import has_risky_option
from .wrappers import normalize, program

_MOST_OPTIONS = 4
_MOST_WORDS = 100


class MatchedRules(msgspec.Struct, frozen=True):
    """The rules on leaving the sandbox that cover one command."""

    denied: Rule | None = None
    asked: Rule | None = None
    allowed: Rule | None = None


def texts_of(part: SimpleCommand) -> tuple[str, ...]:
    """Return the forms of a command that deny and ask rules are matched against."""
    written = part.argv
    name = program(part)
    bare = (name, *written[1:])
    as_git = ("git", name.removeprefix("git-"), *written[1:]) if name.startswith("git-") else bare
    return tuple(dict.fromkeys(" ".join(words) for words in (written, bare, as_git, normalize(part))))


def all_texts_of(part: SimpleCommand) -> tuple[str, ...]:
    """Return the forms of a command for rules that forbid, including those with any options left out, with or
    without their values, so that `make -s release` also matches `make release`.
    """
    words = normalize(part)
    if len(words) > _MOST_WORDS:
        return texts_of(part)
    options = [at for at, word in enumerate(words) if at and word.startswith("-")][:_MOST_OPTIONS]
    forms = list(texts_of(part))
    for taking in range(1 << len(options)):
        valued = {at + 1 for bit, at in enumerate(options) if taking >> bit & 1}
        kept = [word for at, word in enumerate(words) if at not in valued and not (at and word.startswith("-"))]
        forms.append(" ".join(kept))
    return tuple(dict.fromkeys(forms))


def rule_on_fed(part: SimpleCommand, policy: Policy) -> Rule | None:
    """Return the first deny or ask rule that a command may match through words not visible here: `xargs git` may
    become `git push`."""
    if not part.has_unseen_words:
        return None
    seen = [_before_placeholder(text.split()) for text in all_texts_of(part)]
    for rule in policy.rules:
        pattern = rule.pattern.split()
        if rule.kind == "shell" and rule.effect != "allow" and any(pattern[: len(it)] == it for it in seen):
            return rule
    return None


def _before_placeholder(words: list[str]) -> list[str]:
    return words[: next((at for at, word in enumerate(words) if "{}" in word), len(words))]


def allowing_rule(part: SimpleCommand, policy: Policy, kind: Kind = "shell") -> Rule | None:
    """Return the rule that allows a command. A prefix does not cover options that write files or run programs."""
    if part.assigns or is_redefined(part, policy):
        return None
    text = " ".join(part.argv)
    for rule in policy.rules.of("allow", kind):
        if matches_words(rule, text) and ("*" not in rule.pattern or _still_means(part, rule, policy)):
            return rule
    return None


def _still_means(part: SimpleCommand, rule: Rule, policy: Policy) -> bool:
    """Return True if the words matched by a wildcard do not change what the rule allows."""
    if program(part) == "git":
        return git_extras_are_known(part.argv, rule.pattern)
    return not has_risky_option(part, rule.pattern, policy.roots)


def on_leaving(part: SimpleCommand, policy: Policy) -> MatchedRules:
    """Return the rules on running a command outside the sandbox; deny takes precedence over ask, ask over
    allow.
    """
    texts = texts_of(part)
    denied = policy.rules.first("deny", "outside", texts)
    asked = None if denied else policy.rules.first("ask", "outside", texts)
    return MatchedRules(denied, asked, None if denied or asked else allowing_rule(part, policy, "outside"))


def is_doubtful(part: SimpleCommand, policy: Policy) -> bool:
    """Return True if earlier calls of the session may have changed what this one runs, so that the tables do
    not apply. A program in the workspace counts where no sandbox would hold it."""
    if policy.local and not policy.sandboxed and ("*" in policy.local or program(part) in policy.local):
        return True
    if policy.shadowed and ("*" in policy.shadowed or program(part) in policy.shadowed):
        return True
    return is_redefined(part, policy) or any(map(destructive.may_change_what_runs, policy.altered))


def is_redefined(part: SimpleCommand, policy: Policy) -> bool:
    """Return True if a user's rule no longer covers a command because its name has become a function, or programs
    are made to load something. A changed PATH alone, as in a virtual environment, leaves rules in force."""
    if policy.functions and ("*" in policy.functions or program(part) in policy.functions):
        return True
    return any(map(destructive.changes_what_runs, policy.altered))


def lines_of(text: str) -> tuple[str, ...]:
    """Return each line of a text that a shell may take for commands, for rules on single commands."""
    return tuple(line for line in map(str.strip, re.split(r"[\n;]|&&|\|\|?", text)) if line)
