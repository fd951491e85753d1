"""Edit one key in the text of a configuration file. Everything else stays as written, including comments: the text
is changed in one place, parsed again, and rejected unless only that key has changed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .layer import ConfigError, nest
from .yaml_file import load_yaml, read_value


class CannotEdit(ConfigError):
    """The file is written in a way that does not allow setting one key."""


def set_key(text: str, key: str, written: str, path: Path) -> str:
    """Return the text of the file at `path` with a dotted key set to a YAML value.

    Raises:
        ConfigError: the text or the value is not YAML, or the key cannot be set without changing others.
    """
    load_yaml(text, path)
    try:
        value = read_value(written)
    except ValueError as error:
        raise ConfigError(f"{key}: the value is not valid YAML: {error}") from error
    is_plain = not written.lstrip().startswith(("|", ">", '"', "'"))
    if isinstance(value, str) and "\n" in written.strip() and is_plain:
        raise ConfigError(f"{key}: YAML would join the lines of this value; write it on one line, or in quotes")
    return _set(text, key.split("."), written if _is_one_line(written, value) else _dump(value), value, path)


def set_value(text: str, names: Sequence[str], value: Any, path: Path) -> str:
    """Return the text of the file at `path` with a key, given as a list of nested names, set to a value.

    Raises:
        ConfigError: the text is not YAML, or the key cannot be set without changing others.
    """
    return _set(text, names, _dump(value), value, path)


def _set(text: str, parts: Sequence[str], written: str, value: Any, path: Path) -> str:
    before, _ = load_yaml(text, path)
    if not isinstance(before, dict | None):
        raise ConfigError(f"{path}: a configuration file is a mapping of keys to values")
    edit = _Edit(text, ".".join(parts))
    changed, names = edit.apply(parts, written)
    return edit.checked(changed, path, [_with(before or {}, names, value)])


def remove_key(text: str, names: Sequence[str], path: Path) -> str:
    """Return the text of the file at `path` without a key, given as a list of nested names.

    Raises:
        ConfigError: the text is not YAML, the key is not in it, or it cannot be removed without changing others.
    """
    before, _ = load_yaml(text, path)
    dotted = ".".join(names)
    inner: Any = before
    for name in names:
        if not isinstance(inner, dict) or name not in inner:
            raise ConfigError(f"{path}: there is no {dotted}")
        inner = inner[name]
    edit = _Edit(text, dotted)
    return edit.checked(edit.without(list(names)), path, _without(before, names))


class _Edit:
    """A change in one place of a text."""

    def __init__(self, text: str, key: str) -> None:
        self._text, self._key = text, key
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def refusal(self) -> CannotEdit:
        """Return the error for an edit that is not possible."""
        return CannotEdit(f"{self._key} cannot be set by itself in this file; `agent config edit` opens all of it")

    def checked(self, changed: str, path: Path, wanted: Sequence[Any]) -> str:
        """Return the new text if it has one of the wanted contents.

        Raises:
            CannotEdit: it has another one.
        """
        try:
            after, _ = load_yaml(changed, path)
        except ConfigError as error:
            raise self.refusal() from error
        if (after or {}) not in wanted:
            raise self.refusal()
        return changed

    def apply(self, parts: Sequence[str], value: str) -> tuple[str, list[str]]:
        """Return the new text, and the nested names under which the value is stored."""
        import yaml

        node: Any = yaml.compose(self._text, Loader=yaml.SafeLoader)
        rest, names = list(parts), list[str]()
        if node is None:
            return self._inserted(len(self._text), 0, rest, value), rest
        while rest:
            if _is_empty(node):
                return self._replaced(node, _flow(rest, value)), [*names, *rest]
            if not isinstance(node, yaml.MappingNode):
                raise self.refusal()
            found = _find(node, rest)
            if found is None:
                return self._added(node, rest, value), [*names, *rest]
            taken, name, node = found
            rest = rest[taken:]
            names.append(name)
        return self._replaced(node, value), names

    def without(self, names: list[str]) -> str:
        """Return the text without an entry. The last entry of a mapping is removed together with the mapping."""
        import yaml

        node: Any = yaml.compose(self._text, Loader=yaml.SafeLoader)
        mapping, entry = None, None
        for name in names:
            if not isinstance(node, yaml.MappingNode):
                raise self.refusal()
            found = next((pair for pair in node.value if pair[0].value == name), None)
            if found is None:  # it comes from another mapping, by a merge key
                raise self.refusal()
            if mapping is None or len(node.value) > 1 or entry is None:
                mapping, entry = node, found
            node = found[1]
        if mapping is None or entry is None:
            raise self.refusal()
        start, end = self._in_flow(mapping, entry) if mapping.flow_style else self._lines_of(entry)
        return self._text[:start] + self._text[end:]

    def _lines_of(self, entry: Any) -> tuple[int, int]:
        """Return start and end of the lines of an entry in block style."""
        start = self._text.rfind("\n", 0, entry[0].start_mark.index) + 1
        end = self._text.find("\n", max(_end(entry[1]) - 1, entry[0].end_mark.index))
        return start, end + 1 if end >= 0 else len(self._text)

    def _in_flow(self, mapping: Any, entry: Any) -> tuple[int, int]:
        """Return start and end of an entry in flow style, including one of its commas."""
        at = mapping.value.index(entry)
        if at + 1 < len(mapping.value):
            place = entry[0].start_mark.index, mapping.value[at + 1][0].start_mark.index
        elif at:
            place = mapping.value[at - 1][1].end_mark.index, entry[1].end_mark.index
        else:
            raise self.refusal()
        cut = self._text[slice(*place)]
        if "#" in cut and "\n" in cut:  # a comment would be removed too
            raise self.refusal()
        return place

    def _replaced(self, node: Any, value: str) -> str:
        """Replace a value that is written in one line."""
        start, end = node.start_mark.index, node.end_mark.index
        is_long = isinstance(node.value, list) and not node.flow_style
        if is_long or "\n" in self._text[start:end]:
            raise self.refusal()
        gap = " " if start and self._text[start - 1] == ":" else ""
        return self._text[:start] + gap + value + self._text[end:]

    def _added(self, mapping: Any, rest: Sequence[str], value: str) -> str:
        """Add a key after the last one of a mapping."""
        if mapping.flow_style:
            end = mapping.end_mark.index - 1
            comma = ", " if mapping.value else ""
            return (
                self._text[:end]
                + comma
                + _flow(rest, value).removeprefix("{").removesuffix("}")
                + self._text[end:]
            )
        return self._inserted(_end(mapping), mapping.value[0][0].start_mark.column, rest, value)

    def _inserted(self, behind: int, indent: int, names: Sequence[str], value: str) -> str:
        """Insert lines after the line that contains a position."""
        text = self._text
        if behind and text[behind - 1] != "\n":
            line_end = text.find("\n", behind)
            behind = line_end + 1 if line_end >= 0 else len(text)
        gap = self._newline if behind and text[behind - 1] != "\n" else ""
        rows = [f"{' ' * (indent + 2 * depth)}{_dump(name)}:" for depth, name in enumerate(names)]
        return text[:behind] + gap + self._newline.join(rows) + f" {value}{self._newline}" + text[behind:]


def _find(mapping: Any, parts: Sequence[str]) -> tuple[int, str, Any] | None:
    """Return the entry that the first names lead to, and how many they are. A name may itself contain dots, as
    those of models do."""
    for taken in range(len(parts), 0, -1):
        name = ".".join(parts[:taken])
        for key, node in mapping.value:
            if key.value == name:
                return taken, name, node
    return None


def _is_empty(node: Any) -> bool:
    """Return True if a key has no value."""
    return bool(node.tag == "tag:yaml.org,2002:null" and node.start_mark.index == node.end_mark.index)


def _end(node: Any) -> int:
    """Return the end of the last value in a block; the parser's own end of the block includes comments."""
    while isinstance(node.value, list) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _dump(value: Any) -> str:
    """Return a value as one line of YAML that is valid in any position."""
    import yaml

    line = yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, sort_keys=False, width=1 << 30)
    return line.strip()[1:-1]


def _flow(names: Sequence[str], value: str) -> str:
    """Return a value below nested names as one line of YAML."""
    return "".join(f"{{{_dump(name)}: " for name in names) + value + "}" * len(names)


def _is_one_line(written: str, value: Any) -> bool:
    """Return True if a value may be written to a file as it was typed."""
    try:
        return written.strip() != "" and "\n" not in written and bool(read_value(f"[{written}]") == [value])
    except ValueError:
        return False


def _with(values: dict[str, Any], names: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a copy of values with one of them set."""
    changed: dict[str, Any] = _unshared(values)
    inner: Any = changed
    for at, name in enumerate(names[:-1]):
        if not isinstance(inner.get(name), dict):
            inner[name] = nest(list(names[at + 1 :]), value)
            return changed
        inner = inner[name]
    inner[names[-1]] = value
    return changed


def _without(values: Any, names: Sequence[str]) -> list[Any]:
    """Return the possible results of removing a value: with or without the mappings that held nothing else."""
    plain = _unshared(values)
    inner = plain
    for name in names[:-1]:
        inner = inner[name]
    del inner[names[-1]]
    left = [_unshared(plain)]
    for taken in range(len(names) - 1, 0, -1):
        inner = plain
        for name in names[: taken - 1]:
            inner = inner[name]
        if inner[names[taken - 1]]:
            break
        del inner[names[taken - 1]]
        left.append(_unshared(plain))
    return left


def _unshared(value: Any) -> Any:
    """Return a copy in which values repeated by an alias are duplicated."""
    if isinstance(value, list):
        return [_unshared(each) for each in value]
    return {key: _unshared(each) for key, each in value.items()} if isinstance(value, dict) else value
