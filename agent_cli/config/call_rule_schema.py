"""Schema of the enforced rules in the configuration: one kind each, with its parameters."""

from typing import Annotated

import msgspec

Pattern = Annotated[str, msgspec.Meta(min_length=1)]
Several = Pattern | tuple[Pattern, ...]
KINDS = (
    "never_run", "never_edit", "needs_approval", "after_edit_run", "run_first", "only_after", "then_only",
    "at_most", "required_before_end", "ends_turn",
)  # fmt: skip


class ToolRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule. A CALL is a tool's name, or `shell(PATTERN)`, `write(GLOB)`, `read(GLOB)`, `fetch(HOST)`,
    `mcp(SERVER/TOOL)`.

    Raises:
        ValueError: not exactly one kind, a missing part that the kind requires, or a part it does not use.
    """

    never_run: Pattern | None = None
    """Commands that never run: a shell pattern such as `git push *`."""
    never_edit: Pattern | None = None
    """Files that must never be changed: a path pattern."""
    needs_approval: Pattern | None = None
    """A CALL that always asks, whatever rule allows it."""
    after_edit_run: Pattern | None = None
    """A command to run after each edit of a file in `paths`; `{file}` stands for the file."""
    run_first: Several | None = None
    """CALLs, one of which must succeed before any other call."""
    only_after: Several | None = None
    """CALLs, one of which must have succeeded since the last edit before `call` may be made."""
    then_only: Several | None = None
    """CALLs, only one of which may follow `call`; with `if_output`, only if its result matches."""
    at_most: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """Maximum number of times `call` may be made per prompt."""
    required_before_end: Several | None = None
    """CALLs, one of which must have succeeded before a turn ends; with `paths`, after the last edit of those
    files.
    """
    ends_turn: Several | None = None
    """CALLs whose success ends the turn."""
    call: Pattern | None = None
    paths: Pattern | None = None
    if_output: Pattern | None = None
    """A regular expression, searched for in the result's text."""
    because: str = ""
    """The reason, for the model and the user."""

    def __post_init__(self) -> None:
        import re

        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"a rule has exactly one of {', '.join(KINDS)}")
        needed = {"only_after": "call", "then_only": "call", "at_most": "call", "after_edit_run": "paths"}
        useful = {"required_before_end": {"paths"}, "then_only": {"if_output"}}
        part = needed.get(given[0])
        if part and getattr(self, part) is None:
            raise ValueError(f"`{given[0]}` needs `{part}`")
        for name in ("call", "paths", "if_output"):
            if getattr(self, name) is not None and name != part and name not in useful.get(given[0], ()):
                raise ValueError(f"`{given[0]}` has no use for `{name}`")
        if self.if_output is not None:
            try:
                re.compile(self.if_output)
            except re.error as error:
                raise ValueError(f"`if_output` is not a regular expression: {error}") from None

    @property
    def kind(self) -> str:
        """The kind of the rule."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


def several(value: "Several | None") -> tuple[str, ...]:
    """Return one or several CALLs as a tuple."""
    return (value,) if isinstance(value, str) else value or ()
