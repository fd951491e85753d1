"""Any event at all: each field of each type with any value of its type, strings full of what terminals obey."""

import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from agent_cli.protocol import events as ev

NASTY = [
    "\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u202e", "\U000e0041", "\r", "\b", "\x00", "\x1b", "```\n", "~~~py\n", "`",
    "# h\n", "| a |\n", "|-|\n", "--- a\n@@ -1 +1 @@\n+x\n-y \t\n\\ No\n", "&#x202e;", "&#27;[2J", "[red]", "{", "\ud800",
    "👩\u200d👩\u200d👧", "🇩🇪", "e\u0301", "日本", "\n\n", "- i\n", "  - ```\n", "<b>", "\x1b[8m", "\x1b]8;;http://x\x1b\\y", "[a](b)",
    "\t", "\x1bP1$r\x1b\\", "\x1b[31m", "\x0c", "\u2028", "  ", "word " * 30,
]  # fmt: skip
text = st.lists(st.sampled_from(NASTY) | st.text(max_size=5), max_size=6).map("".join)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a field of an event may have."""
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return st.one_of([values(each) for each in get_args(kind)])
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), max_size=3).map(tuple)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.deferred(lambda: structs(kind))  # a sub-agent's event holds another
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: text,
        int: st.integers(-5, 5) | st.integers(-(10**18), 10**18),
        float: st.floats(0, 100) | st.floats(),
        bool: st.booleans(),
        type(None): st.none(),
    }
    return plain[kind]


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """A struct with any value in each of its fields."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: values(hints[name]) for name in kind.__struct_fields__})


KINDS: tuple[type[ev.AnyEvent], ...] = get_args(ev.AnyEvent)
events: st.SearchStrategy[ev.AnyEvent] = st.one_of([structs(kind) for kind in KINDS])
