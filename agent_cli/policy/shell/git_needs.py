"""Find what git commands need beyond their sandbox where their words do not tell: because of git's settings, or of
where its data is."""

import os
import re
from collections.abc import Callable
from functools import partial

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from ..rules.path_verdict import Policy
from .parser import SimpleCommand, Word
from .sandbox_needs import NETWORK_NEEDED, SandboxNeed
from .wrappers import git_settings, normalize, option_values

_SETTINGS = lazy_regex(
    r"^ (?:config (?!.*(?:-f|--file|--blob)[ =]|.*--get)"
    r"(?:(?:-\S+ )*(?:set|unset|edit|re\S+-section|[^- ]\S*\.\S+ \S)"
    r"|(?:.* )?(?:--unset\S*|--add|--replace-all|--re\S+-section|--edit|-e) )"
    r"|remote( -\S+)* (?:add|remove|rm|rename|set-url|set-branches) "
    r"|worktree (?:add|remove|move|prune|lock|unlock|repair) "
    r"|submodule( -\S+)* (?:add|init|update|deinit|sync|set-url|set-branch|absorbgitdirs) "
    r"|sparse-checkout (?:init|set|add|disable) |lfs (?:un)?install "
    r"|branch (?:.* )?(?:-[mMcCut]|--move|--copy|--set-upstream-to(?:=\S+)?|--unset-upstream|--edit-description"
    r"|--track(?:=\S+)?) |(?:checkout|switch) (?:.* )?(?:-t|--track(?:=\S+)?) )"
)
"""What changes the settings of a repository, or its data on work trees and submodules."""
_UNSIGNED = frozenset(
    "--no-gpg-sign --no-sign --ff-only --abort --quit --show-current-patch --edit-todo -d --delete".split()
)
_ON = lazy_regex(r"true|yes|on|[1-9]\d*", re.I)
_COMMITTING = frozenset("commit merge cherry-pick revert rebase am pull".split())
OWN_VERBS = frozenset(
    "add am annotate apply archive bisect blame branch bundle cat-file check-ignore checkout cherry"
    " cherry-pick clean clone commit config count-objects describe diff difftool fetch filter-branch"
    " format-patch fsck gc grep help init log ls-files ls-remote ls-tree maintenance merge merge-base"
    " mergetool mv notes prune pull push range-diff read-tree rebase reflog remote repack replace reset"
    " restore rev-list rev-parse revert rm send-email shortlog show show-ref sparse-checkout stash status"
    " submodule switch symbolic-ref tag update-index update-ref version worktree".split()
)
"""Verbs for which git takes no alias."""
_MOST_ALIASES = 5
_SSH = lazy_regex(r"ssh://|(?!\w+://)(?:[\w.-]+@)?[\w.-]+:(?!\d+/)[^\\]")


def unaliased(part: SimpleCommand, cwd: str, policy: Policy) -> SimpleCommand:
    """Return a command with git's aliases replaced by what they mean, unless that is a command of the shell."""
    for _ in range(_MOST_ALIASES):
        words = normalize(part)
        if words[:1] != ("git",) or len(words) < 2 or words[1] in OWN_VERBS:
            break
        value = _setting(part, cwd, policy, f"alias.{words[1].lower()}")
        if not value or value.startswith("!"):
            break
        at = len(part.words) - len(words) + 1
        expanded = (*part.words[:at], *map(Word, value.split()), *part.words[at + 1 :])
        part = msgspec.structs.replace(part, words=expanded)
    return part


def git_need(part: SimpleCommand, cwd: str, policy: Policy, *, may_leave: bool) -> SandboxNeed:
    """Return what a git command, without aliases, that does more than read needs: to change what is read-only in
    the sandbox or, if it `may_leave`, the user's keys to sign or to reach a remote. Some commands would do half of
    their work first: `git branch -m` renames the branch and then fails, so that it could not run again."""
    words = normalize(part)
    if words[:1] != ("git",) or len(words) < 2:
        return SandboxNeed()
    verb, rest = words[1], words[2:]
    if _SETTINGS.search(f" {' '.join(words[1:])} ") and policy.is_repository(cwd):
        return SandboxNeed("outside", "changes settings of the repository, which are read-only in the sandbox")
    if verb not in ("clone", "init", "help", "version") and policy.git_is_read_only(folder_of(part, cwd)):
        return SandboxNeed("outside", "changes git's data of a submodule or work tree, read-only in the sandbox")
    setting = partial(_setting, part, cwd, policy)
    if may_leave and _signs(verb, rest, setting):
        return SandboxNeed("outside", "signs with your key, which the sandbox hides")
    if may_leave and verb in ("fetch", "pull", "ls-remote"):
        remote = next((word for word in rest if not word.startswith("-")), "origin")
        if _SSH.match(setting(f"remote.{remote}.url")):
            return SandboxNeed("network", NETWORK_NEEDED, keys=True)
    return SandboxNeed()


def _signs(verb: str, rest: tuple[str, ...], setting: Callable[[str], str]) -> bool:
    """Return True if a git command signs, and the key is not a file that commands can read."""
    if (verb not in _COMMITTING and verb != "tag") or not _UNSIGNED.isdisjoint(rest):
        return False
    flags = ("-s", "-u", "--sign", "--local-user") if verb == "tag" else ("-S", "--gpg-sign")
    if not any(word.startswith(flags) for word in rest):
        name = "tag.gpgsign" if verb == "tag" else "commit.gpgsign"
        if not _ON.fullmatch(setting(name)):
            return False
    key = setting("user.signingkey") if setting("gpg.format") == "ssh" else ""
    return not key.startswith(("/", "~")) or "/.ssh/" in key


def _setting(part: SimpleCommand, cwd: str, policy: Policy, name: str) -> str:
    """Return the value that a setting, in lower case, has for a git command; empty if it has none."""
    given = [setting.partition("=") for setting in git_settings(part)]
    own = [value if is_set else "true" for key, is_set, value in given if key.lower() == name]
    return own[-1] if own else policy.git_setting(folder_of(part, cwd), name)


def folder_of(part: SimpleCommand, cwd: str) -> str:
    """Return the folder that a git command works in."""
    before = len(part.argv) - len(normalize(part)[2:])
    return os.path.join(cwd, *option_values(part.argv[1:before], "-C"))
