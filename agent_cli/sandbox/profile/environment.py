"""Environment of child processes: ours without the keys of model providers, and set up so that no program waits
for a user."""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from agent_cli.protocol.lazy_regex import lazy_regex

CALL_TAG = "AGENT_CALL"
"""Names the tool call a process belongs to, so that the process is found after it has left its session."""

NO_TERMINAL = {"GPG_TTY": "/dev/no-terminal"}
"""Names a terminal that does not exist, so that gpg asks for no passphrase on the user's: `pinentry` would draw
over our screen and compete for each key. Without a name it would use that in which `gpg-agent` was started."""
_QUIET = {
    **NO_TERMINAL,
    "AGENT": "agent-cli",
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
}

_GIT_SAFETY = (("safe.bareRepository", "explicit"), ("core.fsmonitor", "false"))
"""Settings that stop git from running a program out of a directory created by another user."""

_MISLEADING = frozenset({"CDPATH", "GIT_SEQUENCE_EDITOR"})
"""With `CDPATH`, `cd src` may enter another directory than the one that was approved. `GIT_SEQUENCE_EDITOR` takes
precedence over `GIT_EDITOR`, and would open an editor for `git rebase -i`."""

_ENGLISH = lazy_regex(r"(?:(?:en|C|POSIX)(?:[_.@:].*)?)?")
"""Locales, and values of `LANGUAGE`, in which programs write English."""

_SECRETS = frozenset(
    {
        "ANTHROPIC_AUTH_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AZURE_AD_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "DATABRICKS_TOKEN",
        "HF_TOKEN",
        "HUGGINGFACE_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "LITELLM_MASTER_KEY",
        "OPENAI_ADMIN_KEY",
        "PREDIBASE_API_TOKEN",
        "REPLICATE_API_TOKEN",
        "VERTEXAI_CREDENTIALS",
        "WATSONX_APIKEY",
        "WATSONX_TOKEN",
    }
)
_SECRET_ENDINGS = ("_API_KEY", "_API_KEYS", "_APIKEY")


_CACHES = {
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "GOCACHE": "go-build",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "XDG_CACHE_HOME": "xdg",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_cache": "npm",
}
"""Cache folder names by the variables that set them."""
_DOWNLOADS = {"CARGO_HOME": "cargo", "GOMODCACHE": "go-mod"}
"""Variables of tools that keep downloads there. Offline the user's own is read until a connected command has
filled ours, which must be writable."""
_DOWNLOAD_FOLDERS = {"CARGO_HOME": ("registry/cache", "git/db"), "GOMODCACHE": ("cache/download",)}
"""Folders of downloads, in those of `_DOWNLOADS`."""
_MATPLOTLIB = ("MPLCONFIGDIR", "MATPLOTLIBRC")
_GO_PROXIES = "https://proxy.golang.org,direct"
"""Where Go looks for modules by default."""
_OFFLINE = {
    "CARGO_NET_OFFLINE": "true",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_RETRIES": "0",
    "npm_config_fetch_retries": "0",
    "npm_config_update_notifier": "false",
}
"""Settings that make offline programs fail at once instead of retrying for minutes."""
_BY_PROXY = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
    *("npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"),
)
PROXIES = frozenset(_BY_PROXY)
"""Variables that name the proxy to the network."""
_PAST_PROXY = ("NO_PROXY", "no_proxy", "npm_config_noproxy")
_OURSELVES = "localhost,127.0.0.1,::1"
_PROXIED = {
    "NODE_USE_ENV_PROXY": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_RETRIES": "1",
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_mintimeout": "500",
    "npm_config_update_notifier": "false",
}
"""Settings that use the proxy and reduce retries: a refused request is refused a minute later too."""
_CONNECTED = {"npm_config_fetch_retry_maxtimeout": "5000", "npm_config_fetch_retry_mintimeout": "1000"}
"""Settings for commands with the whole network: pnpm also repeats, for 70 s, what fails because its store is
read-only."""
OF_CONFINEMENT = frozenset(
    {"TMPDIR", *_MATPLOTLIB, *_CACHES, *_DOWNLOADS, *_OFFLINE, *_BY_PROXY, *_PAST_PROXY, *_PROXIED, *_CONNECTED}
)
"""Variables that are set only for confined commands."""


def confined_env(
    env: Mapping[str, str],
    *,
    offline: bool,
    cache: str | Path | None,
    passed: Collection[str] = (),
    proxy: str = "",
    tmp: str = "",
) -> dict[str, str]:
    """Return the environment for a confined command: `env` without secrets and without variables that lead to
    other programs of the user, except the names in `passed`. An `offline` command gets no proxy of the user's,
    which it could not reach: it fails as without one, and reaches this machine directly.

    Caches move to the folder `cache`, which should be writable (None: they stay where they are). If the command is
    `offline`, `proxy` is the URL through which allowed hosts are reached; empty: none are. `tmp` is its `TMPDIR`;
    empty: that of `env`. A git setting keeps its position and loses its value, because git counts the settings.
    """
    from agent_cli.redaction.env_names import is_secret, leads_out

    kept = {}
    for name, value in env.items():
        if offline and name in PROXIES and name not in passed:
            continue
        if name in passed or not (is_secret(name, value) or leads_out(name)):
            kept[name] = value
        elif name.startswith("GIT_CONFIG_VALUE_"):
            kept[name] = ""
    caches = {name: f"{cache}/{folder}" for name, folder in {**_CACHES, **_DOWNLOADS}.items()} if cache else {}
    if cache and offline and not proxy:
        caches = _with_downloads_of_user(env, caches)
    elif cache and not offline:
        caches |= _CONNECTED
    if cache:
        caches |= _matplotlib(env, cache)
    own = {"TMPDIR": tmp} if tmp else {}
    return {**kept, **caches, **own, **(_way_out(proxy) if offline else {})}


def _with_downloads_of_user(env: Mapping[str, str], caches: Mapping[str, str]) -> dict[str, str]:
    """Return the cache folders of an offline command: without those of downloads that are still empty. Go also
    finds what the user has downloaded, since its cache can be read like a proxy."""
    empty = [
        name
        for name, folders in _DOWNLOAD_FOLDERS.items()
        if not any(os.path.isdir(f"{caches[name]}/{folder}") for folder in folders)
    ]
    kept = {name: folder for name, folder in caches.items() if name not in empty}
    if "GOMODCACHE" in kept:
        go_path = env.get("GOPATH", "").split(os.pathsep)[0] or os.path.join(env.get("HOME", "/"), "go")
        downloads = Path("/", env.get("GOMODCACHE") or f"{go_path}/pkg/mod", "cache/download")
        kept["GOPROXY"] = f"{downloads.as_uri()},{env.get('GOPROXY') or _GO_PROXIES}"
    return kept


def _matplotlib(env: Mapping[str, str], cache: str | Path) -> dict[str, str]:
    """Return where Matplotlib keeps its files: it warns at each import, in the output of notebooks too, if that
    folder is read-only. The user's settings still count, and a folder with styles of the user's stays in use."""
    home = env.get("HOME", "/")
    settings = os.path.join(env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "matplotlib")
    if sys.platform == "darwin":
        settings = os.path.join(home, ".matplotlib")
    if env.get("MPLCONFIGDIR") or os.path.isdir(f"{settings}/stylelib"):
        return {}
    values = (f"{cache}/matplotlib", env.get("MATPLOTLIBRC") or f"{settings}/matplotlibrc")
    return dict(zip(_MATPLOTLIB, values, strict=True))


def _way_out(proxy: str) -> dict[str, str]:
    """Return settings for programs that reach only the hosts behind a proxy, or none."""
    if not proxy:
        return _OFFLINE
    return {**dict.fromkeys(_BY_PROXY, proxy), **dict.fromkeys(_PAST_PROXY, _OURSELVES), **_PROXIED}


def is_provider_secret(name: str) -> bool:
    """Return True if a variable of this name holds the key of a model provider."""
    upper = name.upper()
    return upper in _SECRETS or upper.endswith(_SECRET_ENDINGS)


def child_env(base: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a command: `base` without provider keys, with prompts switched off and messages
    in English, then `extra`; git's safety settings come last.

    A value that the user sets in `extra` takes precedence over everything, even if it is a key.
    """
    kept = {
        name: value for name, value in base.items() if not is_provider_secret(name) and name not in _MISLEADING
    }
    env = {**_in_english(kept), **_QUIET, **(extra or {})}
    return {**env, **_git_safety(env)}


def _in_english(env: dict[str, str]) -> dict[str, str]:
    """Return the user's locale with messages in English: what the sandbox has denied is known by them. Encoding,
    order and formats stay the user's."""
    everywhere = env.get("LC_ALL", "")
    spoken = everywhere or env.get("LC_MESSAGES") or env.get("LANG", "")
    if _ENGLISH.fullmatch(spoken) and _ENGLISH.fullmatch(env.get("LANGUAGE", "")):
        return env
    if everywhere:
        env = {name: value for name, value in env.items() if not name.startswith("LC_")} | {"LANG": everywhere}
    return {**env, "LC_MESSAGES": "C"}


def _git_safety(env: Mapping[str, str]) -> dict[str, str]:
    """Return git safety settings, appended to existing ones; a count that is not a number counts as 0."""
    written = env.get("GIT_CONFIG_COUNT", "")
    first = int(written) if written.isascii() and written.isdigit() else 0
    added = {"GIT_CONFIG_COUNT": str(first + len(_GIT_SAFETY))}
    for place, (name, value) in enumerate(_GIT_SAFETY, start=first):
        added |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
    return added
