"""Detect environment variables that are secrets, by name and by the shape of their values, and those that lead to
other programs of the user. Separate because it is needed only when a command is confined."""

import re
from functools import lru_cache

from agent_cli.protocol.lazy_regex import lazy_regex

from .token_shapes import tokens

_ALWAYS = frozenset(
    {
        *("PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW", "SECRET", "SECRETS", "CREDENTIAL"),
        *("CREDENTIALS", "CREDS", "DSN", "JWT", "COOKIE", "COOKIES", "BEARER", "WEBHOOK", "CONNSTR"),
    }
)
"""Words in a name that make any value a secret."""
_UNLESS_PLAIN = frozenset({"KEY", "KEYS", "TOKEN", "TOKENS", "AUTH", "PAT"})
"""Words that do so unless the value is a number or a switch."""
_GLUED = ("PASSWORD", "PASSWD", "APIKEY", "AUTHTOKEN", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "ACCESSTOKEN")
"""Endings of words that make any value a secret."""
_HARMLESS = lazy_regex(r"PWD|OLDPWD|GIT_CONFIG_KEY_\d+|(?:.*_)?PUB(?:LIC)?_KEYS?(?:_.*)?|.*_KEY_BINDINGS?", re.I)
_HEADERS = lazy_regex(r"OTEL_.*_HEADERS|.*_(?:CUSTOM|EXTRA|HTTP|REQUEST)_HEADERS?", re.I)
"""Request headers, which hold keys in forms such as `authorization=Bearer%20KEY`."""
_PLAIN = lazy_regex(r"\d{0,9}(?:\.\d+)?|true|false|yes|no|on|off|none|auto|always|never", re.I)
_SHAPES = lazy_regex(
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@"  # a URL with a password
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
    r"|(?i:\b(?:bearer|basic)\s+[a-z0-9._~+/=-]{16,})"
    r"|https://hooks\.slack\.com/services/\S{20,}|https://discord(?:app)?\.com/api/webhooks/\S{20,}"
)
"""Values that are secret whatever the name. Placeholders count too, because leaving out a variable does no
harm."""
_LEADING = frozenset(
    {
        *("SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "DISPLAY"),
        *("XDG_RUNTIME_DIR", "WAYLAND_DISPLAY", "XAUTHORITY", "ICEAUTHORITY", "SESSION_MANAGER", "DOCKER_HOST"),
        *("CONTAINER_HOST", "BUILDKIT_HOST", "DOCKER_CERT_PATH", "KUBECONFIG", "TMUX", "STY", "PULSE_SERVER"),
        *("GNOME_KEYRING_CONTROL", "NVIM", "NVIM_LISTEN_ADDRESS", "I3SOCK", "SWAYSOCK", "KITTY_LISTEN_ON"),
        *("WEZTERM_UNIX_SOCKET", "ALACRITTY_SOCKET", "VSCODE_GIT_IPC_HANDLE", "AT_SPI_BUS_ADDRESS", "LISTEN_FDS"),
        *("EMACS_SERVER_FILE", "HYPRLAND_INSTANCE_SIGNATURE", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS"),
    }
)
_LEADING_SHAPES = lazy_regex(r".*_SOCK(?:ET)?|VSCODE_.*IPC.*|VSCODE_GIT_ASKPASS_.*", re.I)


@lru_cache(maxsize=1024)  # the variables of each command are those of the one before
def is_secret(name: str, value: str) -> bool:
    """Return True if a variable holds something that lets others act as the user elsewhere."""
    if not value:
        return False
    if _SHAPES.search(value) or any(tokens(value, judged=False)):
        return True
    if _HARMLESS.fullmatch(name):
        return False
    if _HEADERS.fullmatch(name):
        return True
    words = re.split(r"[_.-]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper())
    if "CONNECTION_STRING" in name.upper() or not _ALWAYS.isdisjoint(words):
        return True
    if any(word.endswith(_GLUED) for word in words):
        return True
    return not _UNLESS_PLAIN.isdisjoint(words) and not _PLAIN.fullmatch(value)


def leads_out(name: str) -> bool:
    """Return True if a variable leads to another program of the user: a key agent, a display, a container engine,
    an editor."""
    return name.upper() in _LEADING or _LEADING_SHAPES.fullmatch(name) is not None
