"""Sources of plug-ins: a folder, a git repository, or a marketplace that refers to one of these."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent_cli.config.foreign_settings import json_with_comments
from agent_cli.tools.kit.output import first_of

from .plugin import PluginError

MAX_MARKET_BYTES = 8_000_000
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}")
_REPOSITORY = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,100}")
_REF = re.compile(r"(?!-)(?!.*\.\.)[A-Za-z0-9._/+-]{1,200}")
_SSH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:(?![/-])[^\s]+")
_PROTOCOLS = ("https://", "ssh://", "file://")
_PARTS = ("skills", "commands", "agents", "hooks", "mcpServers")
_FORMS = "give a folder, github:OWNER/REPO, the https, ssh or file address of a git repository, or MARKET#NAME"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """An address that can be fetched again."""

    kind: Literal["folder", "git"]
    place: str
    """An absolute path, or the address of a repository."""
    ref: str = ""
    """A branch, tag or commit; empty for the default branch."""
    path: str = ""
    """A subfolder."""
    entry: str = ""
    """The plug-in's name in the marketplace at this place; empty if the place is the plug-in itself."""

    def __str__(self) -> str:
        """The address as `agent plugin add` accepts it."""
        ref, entry = f"@{self.ref}" if self.ref else "", f"#{self.entry}" if self.entry else ""
        github = re.fullmatch(r"https://github\.com/([^/]+/[^/]+?)\.git", self.place)
        return f"{f'github:{github[1]}' if github else self.place}{ref}{entry}"

    @property
    def protocol(self) -> str:
        """The protocol git uses for it."""
        return self.place.partition("://")[0] if "://" in self.place else "ssh"

    @property
    def name(self) -> str:
        """The default name of the plug-in."""
        last = (self.path or self.place).rstrip("/").rpartition("/")[2].rpartition(":")[2]
        return self.entry or last.removesuffix(".git")


def parse_source(text: str, cwd: Path) -> Source:
    """Parse an address as written by the user.

    Raises:
        PluginError: it is invalid.
    """
    if text and (folder := cwd / os.path.expanduser(text)).is_dir():
        return Source(kind="folder", place=os.path.normpath(folder))
    address, mark, entry = text.partition("#")
    if mark and not entry:
        raise PluginError("write the name of a plug-in of the marketplace behind #")
    if address and (folder := cwd / os.path.expanduser(address)).is_dir():
        return Source(kind="folder", place=os.path.normpath(folder), entry=entry)
    if address.startswith("github:"):
        repository, _, ref = address.removeprefix("github:").partition("@")
        return Source(kind="git", place=_github(repository), ref=_ref(ref), entry=entry)
    if address.startswith(_PROTOCOLS) or _SSH.fullmatch(address):
        return _git(address, entry)
    if "://" in address or "::" in address:
        raise PluginError(f"{address[:200]!r} is not supported: {_FORMS}")
    hint = f"; did you mean github:{address}?" if re.fullmatch(r"[\w-]+/[\w.-]+(@\S+)?", address) else ""
    raise PluginError(f"there is no folder {address[:200]!r}{hint or f': {_FORMS}'}")


def market_entry(data: bytes, name: str) -> Mapping[str, Any]:
    """Return the entry of a plug-in in a marketplace file.

    Raises:
        PluginError: the file cannot be read, or has no entry of that name.
    """
    content = _market(data)
    entries: dict[str, Mapping[str, Any]] = {each["name"]: each for each in reversed(_entries(content))}
    if name not in entries:
        raise PluginError(f"the marketplace has no plug-in named {name!r}; {listed(data)}")
    return entries[name]


def listed(data: bytes) -> str:
    """Return a text listing the plug-ins of a marketplace."""
    try:
        names = sorted({each["name"] for each in _entries(_market(data))})
    except PluginError as error:
        return str(error)
    return f"its plug-ins are: {first_of(names, 40)}" if names else "it has none"


def entry_source(data: bytes, name: str, market: Source) -> Source:
    """Return the source of a plug-in in a marketplace. `market` is the source of the marketplace itself, with the
    commit that was read as its `ref`.

    Raises:
        PluginError: the entry cannot be read, or refers to an unsupported kind of source.
    """
    entry = market_entry(data, name)
    written = entry.get("source")
    if isinstance(written, dict) and written.get("source") == "local":
        written = written.get("path")
    if isinstance(written, str):
        base = _base(data)
        path = _below(written if written.startswith("./") or not base else f"{base}/{written}", name)
        return msgspec.structs.replace(market, path=path, entry="")
    if not isinstance(written, dict):
        raise PluginError(f"the marketplace does not say where {name} is")
    ref = _ref(_word(written.get("sha")) or _word(written.get("ref")))
    path = _below(_word(written.get("path")) or ".", name)
    match written.get("source"):
        case "github":
            return Source(kind="git", place=_github(_word(written.get("repo"))), ref=ref, path=path)
        case "url" | "git-subdir" | "git":
            url = _word(written.get("url"))
            place = _github(url) if re.fullmatch(r"[\w-]+/[\w.-]+", url) else _git(url, "").place
            return Source(kind="git", place=place, ref=ref, path=path)
        case other:
            raise PluginError(
                f"the marketplace says that {name} comes from {str(other)[:60]!r}, which is not supported: only"
                " folders of it, github, url and git-subdir are"
            )


def other_path(data: bytes, name: str) -> str:
    """Return where else a plug-in of a marketplace may be: `./NAME` is below its root for some authors, below its
    `pluginRoot` for others. Empty if there is no second place."""
    written, base = market_entry(data, name).get("source"), _base(data)
    return _below(f"{base}/{written}", name) if base and isinstance(written, str) and written[:2] == "./" else ""


def _base(data: bytes) -> str:
    """Return the folder of a marketplace's plug-ins; empty if it names none."""
    metadata = _market(data).get("metadata")
    return _word(metadata.get("pluginRoot")) if isinstance(metadata, dict) else ""


def entry_manifest(data: bytes, name: str) -> bytes:
    """Return the manifest implied by a marketplace entry; empty if the entry names no components."""
    entry = market_entry(data, name)
    kept = {key: entry[key] for key in ("name", "version", "description", *_PARTS) if key in entry}
    if not any(key in kept for key in _PARTS):
        return b""
    return msgspec.json.format(msgspec.json.encode(kept))


def _market(data: bytes) -> dict[str, Any]:
    try:
        content = json_with_comments(data)
    except msgspec.DecodeError as error:
        raise PluginError(f"the file of the marketplace cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise PluginError("the file of the marketplace is not an object")
    return content


def _entries(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    entries = content.get("plugins")
    found = entries if isinstance(entries, list) else []
    return [each for each in found if isinstance(each, dict) and isinstance(each.get("name"), str)]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _github(repository: str) -> str:
    owner, _, name = repository.removesuffix(".git").partition("/")
    if not (_OWNER.fullmatch(owner) and _REPOSITORY.fullmatch(name)):
        raise PluginError(f"{repository[:200]!r} is not a GitHub repository: write OWNER/REPO")
    return f"https://github.com/{owner}/{name}.git"


def _git(address: str, entry: str) -> Source:
    """Parse the address of a repository; a ref follows the last @ of its last part."""
    is_known = address.startswith(_PROTOCOLS) or _SSH.fullmatch(address)
    if not is_known or re.search(r"[\s\x00-\x1f]|://-", address):
        raise PluginError(f"{address[:200]!r} is not supported: {_FORMS}")
    front, slash, last = address.rpartition("/")
    last, _, ref = last.partition("@") if slash else (last, "", "")
    return Source(kind="git", place=f"{front}{slash}{last}", ref=_ref(ref), entry=entry)


def _ref(ref: str) -> str:
    if ref and not _REF.fullmatch(ref):
        raise PluginError(f"{ref[:200]!r} is not a branch, tag or commit")
    return ref


def _below(path: str, name: str) -> str:
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if path.startswith(("/", "~", "\\")) or ".." in parts or "\0" in path or len(path) > 500:
        raise PluginError(f"the marketplace says that {name} is at {path[:200]!r}, which is not below it")
    return "/".join(parts)
