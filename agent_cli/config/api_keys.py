"""API keys of model providers: from the environment, else from the user's key file, else from the system's keyring
if that file refers to it. They stay in this program's memory: never in its environment, a command line, a
session or a log.

    # <config dir>/keys.yaml, mode 0600
    ANTHROPIC_API_KEY: sk-…
    OPENAI_API_KEY: {keyring: SERVICE/USER}

Separate from the configuration, which may be shown, shared and kept under version control.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from .layer import ConfigError

KEY_FILE = "keys.yaml"
KEYRING_TIMEOUT_S = 2.0
KEYRING_SERVICE = "agent-cli"
"""Service name of saved keys in the keyring; the user name is the variable's name."""
_KEYRING_SAVE_TIMEOUT_S = 60.0
"""Longer, because the system may ask for a password to unlock it."""
_LARGEST_BYTES = 65_536
_VARIABLE = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = "write lines such as `ANTHROPIC_API_KEY: …`"


class KeyringEntry(msgspec.Struct, frozen=True):
    """Location of a key in the system's keyring."""

    service: str
    user: str


class KeyFile(msgspec.Struct, frozen=True):
    """Content of a key file, by variable."""

    path: str
    values: Mapping[str, str] = {}
    entries: Mapping[str, KeyringEntry] = {}

    def __repr__(self) -> str:
        """Return a representation without the keys."""
        return f"KeyFile({self.path!r}, {sorted([*self.values, *self.entries])})"


class KeyedEnvironment(Mapping[str, str]):
    """The environment with the keys of a key file and the keyring. As a mapping it is the environment alone, so
    that no other setting can come from a key file; `key` searches all sources.

    Attributes:
        problems: failures of the keyring, in words for the user.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        file: KeyFile,
        keyring_timeout_s: float = KEYRING_TIMEOUT_S,
        unsaved: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = environ
        self._file = file
        self._unsaved = unsaved or {}
        self._timeout_s = keyring_timeout_s
        self._asked: dict[str, str] = {}
        self._silent = False
        self.problems: list[str] = []

    def __getitem__(self, name: str) -> str:
        return self._environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)

    def __repr__(self) -> str:
        """Return a representation without any value."""
        return f"KeyedEnvironment({self._file!r})"

    def key(self, name: str) -> str:
        """Return the key of a variable; empty if there is none. Asks the keyring at most once per variable, and
        not again after a lasting failure."""
        return self._found(name)[0]

    def source(self, name: str) -> str:
        """Return the source of a variable's key, in words; empty if there is none."""
        return self._found(name)[1]

    def _found(self, name: str) -> tuple[str, str]:
        """Return the key of a variable and its source; both are empty if there is none."""
        if value := self._environ.get(name, "").strip():
            return value, f"the variable {name}"
        if name in self._unsaved:
            return self._unsaved[name], f"{name}, pasted at the start and not saved"
        if name in self._file.values:
            return self._file.values[name], f"{name} in {self._file.path}"
        if (entry := self._file.entries.get(name)) is None:
            return "", ""
        if name not in self._asked:
            self._asked[name] = self._from_keyring(name, entry)
        key = self._asked[name]
        return key, f"the keyring ({entry.service}/{entry.user}, for {name} in {self._file.path})" if key else ""

    def held(self) -> dict[str, str]:
        """Return the known keys that are not in the environment, without asking the keyring for more."""
        return {**self._file.values, **{name: key for name, key in self._asked.items() if key}, **self._unsaved}

    def expected(self) -> dict[str, str]:
        """Return the environment with a value for each expected key, to determine which providers are usable. The
        keyring, which may take seconds, is not asked: its keys are `?`."""
        keys = {**dict.fromkeys(self._file.entries, "?"), **self.held()}
        return {
            **self._environ,
            **{name: key for name, key in keys.items() if not self._environ.get(name, "").strip()},
        }

    def _from_keyring(self, name: str, entry: KeyringEntry) -> str:
        if self._silent:
            return ""
        try:
            return keyring_password(entry, self._timeout_s).strip()
        except KeyringError as error:
            self._silent = error.lasting
            where = f"{self._file.path} takes {name} from the keyring"
            self.problems.append(f"{where}, but {error}; set {name}, or put the key into that file")
            return ""


def key_of(env: Mapping[str, str], name: str) -> str:
    """Return the key of a variable in an environment; empty if there is none."""
    return env.key(name) if isinstance(env, KeyedEnvironment) else env.get(name, "").strip()


def source_of(env: Mapping[str, str], name: str) -> str:
    """Return the source of a variable's key, in words; empty if there is none."""
    if isinstance(env, KeyedEnvironment):
        return env.source(name)
    return f"the variable {name}" if env.get(name, "").strip() else ""


def keyed(environ: Mapping[str, str], config_dir: Path) -> KeyedEnvironment:
    """Return the environment together with the user's key file.

    Raises:
        ConfigError: the key file is accessible to others, or invalid.
    """
    return KeyedEnvironment(environ, read_key_file(config_dir / KEY_FILE), unsaved=_unsaved)


_unsaved: dict[str, str] = {}
"""Keys the user has given to this process alone. Not in its environment, which commands inherit."""


def use_unsaved_key(name: str, key: str) -> None:
    """Use a key until the process ends, without saving it."""
    _unsaved[name] = key


def unsaved_names() -> frozenset[str]:
    """Return the variables of the unsaved keys."""
    return frozenset(_unsaved)


def read_key_file(path: Path) -> KeyFile:
    """Read a key file; a missing file is empty.

    Raises:
        ConfigError: it belongs to or is accessible to another user, or is not a YAML mapping of variables to keys.
            The text contains nothing from the file but names.
    """
    return _parsed(_private_text(path), path)


def _private_text(path: Path, *, follow: bool = True) -> str:
    """Return the text of a key file; empty if it is missing.

    Raises:
        ConfigError: it belongs to or is accessible to another user, is too large or not text; without `follow`,
            also if it is a link.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        is_link = error.errno == errno.ELOOP and not follow
        problem = "a link; keys are saved only in a file itself" if is_link else error.strerror
        raise ConfigError(f"{path}: {problem}") from error
    try:
        _check_privacy(os.fstat(descriptor), path)  # first: Python opens no file on a folder's descriptor
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_LARGEST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST_BYTES:
        raise ConfigError(f"{path}: too large for a key file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None


def save_key(path: Path, name: str, key: str) -> None:
    """Save a key in a key file under the name of a variable. The rest of the file is unchanged, including
    comments.

    Raises:
        ConfigError: the file is a link, accessible to another user, not writable, or has content that a key cannot
            be added to. The text never contains the key.
    """
    _save(path, name, msgspec.json.encode(key).decode())


def save_in_keyring(path: Path, name: str, key: str) -> None:
    """Save a key in the system's keyring, and a reference to it in a key file.

    Raises:
        KeyringError: the keyring failed, or did not answer in time.
        ConfigError: as `save_key`.
    """
    _ask_keyring(lambda ring: ring.set_password(KEYRING_SERVICE, name, key), _KEYRING_SAVE_TIMEOUT_S)
    _save(path, name, f"{{keyring: {KEYRING_SERVICE}/{name}}}")


def _save(path: Path, name: str, written: str) -> None:
    from agent_cli.fs.files import file_lock, replace_file

    from .edit import CannotEdit, set_key

    try:
        with file_lock(path):
            text = _private_text(path, follow=False)
            _parsed(text, path)
            changed = set_key(text, name, written, path)
            _parsed(changed, path)
            replace_file(path, changed.encode(), durable=True)
    except CannotEdit:
        raise ConfigError(f"{path}: {name} cannot be set without changing more; edit the file yourself") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _check_privacy(status: os.stat_result, path: Path) -> None:
    """Check that only the user can access a key file.

    Raises:
        ConfigError: others may read or change the file.
    """
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: not a regular file")
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"{path}: belongs to another user (id {status.st_uid}); keys are read from your own file only"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o177:
        raise ConfigError(
            f"{path}: others may open it (mode {mode:04o}); run `chmod 600 {path}`, and replace the keys in it if "
            "anybody else uses this machine"
        )


def _parsed(text: str, path: Path) -> KeyFile:
    if not text.strip():  # usually there is no file, and YAML takes long to load
        return KeyFile(str(path))
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not valid YAML; {_EXAMPLE}") from None  # the message may quote a key
    if root is None:
        return KeyFile(str(path))
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}: not a mapping of variables to keys; {_EXAMPLE}")
    values: dict[str, str] = {}
    entries: dict[str, KeyringEntry] = {}
    for key, node in root.value:
        place = f"{path}:{key.start_mark.line + 1}"
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(f"{place}: not the name of a variable; {_EXAMPLE}")
        if name in values or name in entries:
            raise ConfigError(f"{place}: {name} is given twice")
        if isinstance(node, yaml.ScalarNode):
            values[name] = _key_text(node.value, name, place)
        else:
            entries[name] = _entry(node, name, place)
    return KeyFile(str(path), values, entries)


def _key_text(text: str, name: str, place: str) -> str:
    """Return a key without surrounding white space.

    Raises:
        ConfigError: the text cannot be a key.
    """
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(f"{place}: the key of {name} is empty, or has characters that no key has")
    return key


def _entry(node: object, name: str, place: str) -> KeyringEntry:
    """Parse a keyring entry.

    Raises:
        ConfigError: not `{keyring: SERVICE/USER}`.
    """
    pairs = getattr(node, "value", None) or []
    pair = pairs[0] if len(pairs) == 1 and isinstance(pairs[0], tuple) else None
    service, slash, user = (
        str(pair[1].value).rpartition("/") if pair and pair[0].value == "keyring" else ("", "", "")
    )
    if not (service and slash and user):
        raise ConfigError(f"{place}: write the key of {name}, or `{{keyring: SERVICE/USER}}`")
    return KeyringEntry(service, user)


class KeyringError(Exception):
    """The keyring returned no key; the text says why. `lasting`: it will not return any other key either."""

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting


def keyring_works() -> bool:
    """Return True if the package `keyring` is installed and has found a system keyring."""
    try:
        return bool(_ask_keyring(lambda ring: ring.get_keyring().priority > 0, KEYRING_TIMEOUT_S))
    except KeyringError:
        return False


def keyring_password(entry: KeyringEntry, timeout_s: float) -> str:
    """Return a password from the system's keyring.

    Raises:
        KeyringError: as `_ask_keyring`, or there is no such entry.
    """
    password = _ask_keyring(lambda ring: ring.get_password(entry.service, entry.user), timeout_s)
    if isinstance(password, str) and password:
        return password
    raise KeyringError(f"it has no password for {entry.service}/{entry.user}", lasting=False)


def _ask_keyring(use: Callable[[Any], object], timeout_s: float) -> object:
    """Call the package `keyring` in a separate thread, since it may wait for a dialog that nobody sees.

    Raises:
        KeyringError: not installed, no answer in time, or it failed.
    """
    import threading

    answer: list[object] = []

    def ask() -> None:
        try:
            answer.append(use(import_module("keyring")))
        except BaseException as error:  # whatever a keyring backend raises, the program goes on without it
            answer.append(error)

    thread = threading.Thread(target=ask, name="keyring", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not answer:
        raise KeyringError(f"the keyring did not answer within {timeout_s:g} s", lasting=True)
    match answer[0]:
        case ImportError():
            raise KeyringError("the package `keyring` is not installed", lasting=True)
        case BaseException() as error:
            raise KeyringError(f"the keyring failed ({type(error).__name__})", lasting=True)
        case value:
            return value
