"""The directories in which the commands of a line run, as its changes of directory lead there."""

import os
from collections.abc import Sequence

import msgspec

from ..rules.path_verdict import Policy
from .parser import SimpleCommand, Unsure, Word, is_chain, parse
from .wrappers import UnwrappedCommand, program, unwrap

_MOST_PLACES = 4
"""Maximum number of directories in which a command may run; with more, the line is not certain."""


class CommandInPlace(msgspec.Struct, frozen=True):
    """A simple command with all commands it runs and its working directory."""

    part: SimpleCommand
    inside: UnwrappedCommand
    cwd: str
    or_in: tuple[str, ...] = ()
    """Its directory if a `cd` before it has failed."""

    @property
    def places(self) -> tuple[str, ...]:
        """All directories in which it may run."""
        return (self.cwd, *self.or_in)


def steps(line: str, cwd: str, policy: Policy) -> list[CommandInPlace]:
    """Return each simple command with its directory, or with both if a `cd` before it may fail unnoticed."""
    parts = parse(line)
    _check_session(line, parts, policy)
    is_one_chain = is_chain(parts)
    outside: tuple[str, ...] = (cwd,)
    places = outside
    found = []
    for at, part in enumerate(parts):
        if at and part.subshell != parts[at - 1].subshell:
            places = outside
        inside = unwrap(part)
        found.append(CommandInPlace(part, inside, places[0], places[1:]))
        if any(program(command) in ("cd", "pushd", "popd") for command in inside.commands):
            is_followed = part.argv[0] == "cd" and part.operator in ("&&", ";", "\n", "")
            is_followed = is_followed and (not part.block or part.subshell > 0)
            if any(program(before) == "shopt" for before in parts[:at]):
                raise Unsure("a change of directory after a change of the shell's options")
            if not is_followed or (at and parts[at - 1].operator in ("|", "|&", "||")):
                raise Unsure("a change of directory that may not happen")
            entered = tuple(_entered(part, place, policy) for place in places)
            is_sure = is_one_chain and not part.negated and not part.block
            places = entered if is_sure else tuple(dict.fromkeys((*entered, *places)))
            if len(places) > _MOST_PLACES:
                raise Unsure("several changes of directory that may fail")
            outside = outside if part.subshell else places
    return found


def _check_session(line: str, parts: Sequence[SimpleCommand], policy: Policy) -> None:
    """Refuse a line that earlier commands of the session may have given another meaning.

    Raises:
        Unsure: they may have.
    """
    # `IFS` splits the words of a loop; other names are reported if the shell converts what is assigned to them.
    if any(part.block for part in parts) and any(name == "IFS" or name.islower() for name in policy.altered):
        raise Unsure("a loop after a change of variables")
    if "$(seq " in line and not {"seq", "*"}.isdisjoint((*policy.functions, *policy.shadowed, *policy.local)):
        raise Unsure("a loop over the output of a `seq` that may be another program")
    is_moved = "cd" in policy.functions or not {"CDPATH", "HOME"}.isdisjoint(policy.altered)
    if is_moved and any(program(part) == "cd" for part in parts):
        raise Unsure("a change of directory after a change of what `cd` does")


def _entered(part: SimpleCommand, cwd: str, policy: Policy) -> str:
    """Return the directory after `cd DIR`, as the shell tracks it: links are not resolved."""
    word = part.words[1] if len(part.words) == 2 else Word("-")
    if word.glob or word.text[:1] in ("-", "") or part.assigns:
        raise Unsure("a change of directory that cannot be followed")
    written = policy.home + word.text[1:] if word.text.startswith("~") else word.text
    logical = os.path.normpath(os.path.join(cwd, written))
    if policy.resolve(word.text, cwd) != policy.resolve(logical, cwd):
        raise Unsure("a change of directory through a link")
    return logical
