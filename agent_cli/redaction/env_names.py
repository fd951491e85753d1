"""Which variables of an environment are secrets, told by their names and by the shape of their values, and which
lead to other programs of the user. Apart, because what it knows is only needed once a command is confined.
"""

import re

_ALWAYS = frozenset(
    {
        *("PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW", "SECRET", "SECRETS", "CREDENTIAL"),
        *("CREDENTIALS", "CREDS", "DSN", "JWT", "COOKIE", "COOKIES", "BEARER", "WEBHOOK", "CONNSTR"),
    }
)
"""Words of a name that make any value a secret."""
_UNLESS_PLAIN = frozenset({"KEY", "KEYS", "TOKEN", "TOKENS", "AUTH", "PAT"})
"""Those that do so unless the value is a number or a switch."""
_GLUED = ("PASSWORD", "PASSWD", "APIKEY", "AUTHTOKEN", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "ACCESSTOKEN")
"""What a word may end in."""
_HARMLESS = re.compile(r"PWD|OLDPWD|GIT_CONFIG_KEY_\d+|(?:.*_)?PUB(?:LIC)?_KEYS?(?:_.*)?|.*_KEY_BINDINGS?", re.I)
_PLAIN = re.compile(r"\d{0,9}(?:\.\d+)?|true|false|yes|no|on|off|none|auto|always|never", re.I)
_SHAPES = re.compile(
    r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@"  # a URL with a password
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
    r"|(?i:\b(?:bearer|basic)\s+[a-z0-9._~+/=-]{16,})"
    r"|\b(?:"
    r"sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[0-9A-Za-z]{16,}|gh[pousr]_[A-Za-z0-9]{36,}"
    r"|github_pat_[A-Za-z0-9_]{40,}|gl[a-z]{2,5}-[A-Za-z0-9_.-]{18,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"
    r"|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{30,}|xox[abeprs]-[A-Za-z0-9-]{10,}|npm_[A-Za-z0-9]{36}\b"
    r"|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|do[opr]_v1_[0-9a-f]{64}"
    r"|hv[sbr]\.[A-Za-z0-9_-]{24,}|dapi[0-9a-f]{32}|xai-[A-Za-z0-9]{40,}|gsk_[A-Za-z0-9]{40,}"
    r"|dckr_[po]at_[A-Za-z0-9_-]{24,}|AT[AC]TT3[A-Za-z0-9_=-]{60,}|ntn_[A-Za-z0-9]{40,}|figd_[A-Za-z0-9_-]{32,}"
    r"|fo1_[A-Za-z0-9_-]{40,}|fm(?:1[ar]|2)_[A-Za-z0-9+/=_-]{80,}|NRAK-[A-Z0-9]{27}|atlasv1\.[A-Za-z0-9_=-]{60,}"
    r"|pul-[0-9a-f]{40}|sbp_[0-9a-z_]{40,}|sb_secret_[A-Za-z0-9_-]{20,}|vc[piark]_[A-Za-z0-9_]{24,}"
    r"|(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{40,}"
    r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|\d{8,10}:AA[A-Za-z0-9_-]{33}"
    r")"
    r"|https://hooks\.slack\.com/services/\S{20,}|https://discord(?:app)?\.com/api/webhooks/\S{20,}"
)
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
_LEADING_SHAPES = re.compile(r".*_SOCK(?:ET)?|VSCODE_.*IPC.*|VSCODE_GIT_ASKPASS_.*", re.I)


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable holds what lets somebody act as the user elsewhere."""
    if not value:
        return False
    if _SHAPES.search(value):
        return True
    if _HARMLESS.fullmatch(name):
        return False
    words = re.split(r"[_.-]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper())
    if "CONNECTION_STRING" in name.upper() or not _ALWAYS.isdisjoint(words):
        return True
    if any(word.endswith(_GLUED) for word in words):
        return True
    return not _UNLESS_PLAIN.isdisjoint(words) and not _PLAIN.fullmatch(value)


def leads_out(name: str) -> bool:
    """Return whether a variable leads to a program of the user's outside: an agent for keys, a display, a
    container engine, an editor."""
    return name.upper() in _LEADING or _LEADING_SHAPES.fullmatch(name) is not None
