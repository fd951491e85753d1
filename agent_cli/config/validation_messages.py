"""What the schema library says of a wrong value, in words for somebody who does not know its types. Apart from
`layer`, and loaded only when something is wrong."""

import re

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping of keys to values",
    "null": "null",
}
_VALUES = {**_KINDS, "null": "nothing"}
"""As what was found is called."""
_BOUNDS = {">=": "of at least", ">": "greater than", "<=": "of at most", "<": "less than"}
_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[^`]+)`(?: (?P<sign>[<>]=?) (?P<bound>\S+))?(?:, got `(?P<found>[^`]+)`)?"
)
_ENUM = re.compile(r"Invalid enum value (?P<value>.*)")


def validation_message(message: str, choices: tuple[str, ...], value: object = None) -> str:
    """What to write, not what was found: `write a whole number or null, not text`.

    Args:
        message: of the library, without the place.
        choices: the words that are possible, if there are only some.
        value: what was found, where it is known.
    """
    if choices:
        enum = _ENUM.fullmatch(message)
        found = f", not {enum['value']}" if enum else ""
        return f"write one of {', '.join(choices)}{found}"
    expected = _EXPECTED.fullmatch(message)
    if expected is None:
        return message
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in expected["kinds"].split(" | "))
    if expected["sign"]:
        found = f", not {value}" if isinstance(value, int | float) else ""
        return f"write {wanted} {_BOUNDS[expected['sign']]} {float(expected['bound']):g}{found}"
    return f"write {wanted}, not {_named(expected['found'], value)}"


def _named(kind: str, value: object) -> str:
    """What was found: short values as they are, since `the text 'many'` is recognised sooner than `text`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str) and len(value) <= _SHORT and value.isprintable():
        return f"the text {value!r}"
    return _VALUES.get(kind, kind)


_SHORT = 40
