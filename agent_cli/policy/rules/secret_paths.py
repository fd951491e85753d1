"""Files that usually hold secrets, by name alone. They are read only with the user's approval, and a sandbox hides
them from commands; templates of such files and public keys are not secrets.

Patterns have the syntax of rules: `**/` matches any folder, `/**` after a name everything below it.
"""

import re
from functools import lru_cache

from agent_cli.protocol.lazy_regex import lazy_regex

from .globs import regex_of

_FOLDERS = (
    ".ssh .gnupg .aws .azure .kube .password-store .local/share/keyrings Library/Keychains .config/gcloud"
    " .config/gh .config/hub .config/op .mozilla/firefox .config/google-chrome .config/chromium"
    " .config/BraveSoftware .config/microsoft-edge Library/Safari Library/Cookies .thunderbird"
    " .config/github-copilot .config/glab-cli .config/doctl .config/stripe .config/sops .config/rclone"
).split()
_FILES = (
    ".env .env.* .envrc *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx id_rsa* id_dsa* id_ecdsa* id_ed25519*"
    " .netrc _netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .vault-token .dockercfg .docker/config.json"
    " .s3cfg .boto .terraformrc terraform.rc .terraform.d/credentials.tfrc.json .cargo/credentials"
    " .cargo/credentials.toml .gem/credentials .m2/settings.xml .htpasswd"
    " secrets.yml secrets.yaml secrets.json secrets.toml .credentials.json application_default_credentials.json"
    " *service-account*.json *service_account*.json *serviceaccount*.json client_secret*.json"
    " *.keychain *.keychain-db .bash_history .zsh_history .sh_history .python_history .node_repl_history"
    " .codex/auth.json .claude/.credentials.json .claude.json .gemini/oauth_creds.json .qwen/oauth_creds.json"
    " .gemini/mcp-oauth-tokens.json .local/share/opencode/auth.json .config/goose/secrets.yaml .rclone.conf"
    " .cache/huggingface/token .cache/huggingface/stored_tokens .huggingface/token .kaggle/kaggle.json"
    " .config/containers/auth.json .config/ngrok/ngrok.yml .fly/config.yml .netlify/config.json"
    " .psql_history .mysql_history .rediscli_history .irb_history fish_history"
).split()
_SYSTEM = (
    "/proc/*/environ /proc/*/mem /proc/*/task/*/environ /proc/*/task/*/mem /proc/kcore /dev/mem /dev/kmem"
    " /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d/** /etc/security/opasswd"
    " /etc/ssh/ssh_host_*_key"
).split()

_OPEN = lazy_regex(
    r".*/\.env\.(?:[^/]*\.)?(?:example|sample|template|dist|defaults?|schema)|.*/\.ssh/known_hosts(?:\.old)?"
    r"|.*\.pub|.*/(?:cacert|cabundle|ca-bundle|ca-certificates|ca-cert|tls-ca-bundle)\.pem|(?:/etc/ssl/certs"
    r"|/etc/pki|/usr/share|/usr/lib|/usr/local/share/ca-certificates)/.*\.pem",
    re.DOTALL | re.IGNORECASE,
)
"""Exceptions: files that a pattern covers but that are not secret."""


_UNSEEN = lazy_regex(
    r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]|\s+(?=/|\Z)"
)
"""Invisible parts of a name: zero-width characters, and spaces at its end."""


def seen_path(path: str) -> str:
    """Return a path as it is displayed, without invisible characters and without spaces at the end of a name."""
    return _UNSEEN.sub("", path)


def secret_patterns() -> tuple[str, ...]:
    """Return all patterns in the form used by `read(PATTERN)`."""
    return (*(f"**/{name}" for name in _FILES), *(f"**/{name}/**" for name in _FOLDERS), *_SYSTEM)


def is_secret(path: str, home: str = "") -> bool:
    """Return True if a file or folder usually holds secrets. `path` is absolute, or starts with `~` for `home`; it
    need not exist, and case is ignored."""
    if home and path.startswith("~/"):
        path = home + path[1:]
    path = seen_path(path)
    return _secret().search(path) is not None and _OPEN.fullmatch(path) is None


def names_a_secret(pattern: str) -> bool:
    """Return True if a rule pattern, with its wildcards taken literally, is the name of a secret: `.env` and
    `**/*.pem` are, `**` is not."""
    return is_secret(f"/{pattern.lstrip('/')}")


@lru_cache(maxsize=1)
def _secret() -> re.Pattern[str]:
    names = "|".join(map(regex_of, _FILES))
    folders = "|".join(map(regex_of, _FOLDERS))
    system = "|".join(regex_of(path.removesuffix("/**")) + "(?:/.*)?" * path.endswith("/**") for path in _SYSTEM)
    return re.compile(rf"/(?:(?:{names})|(?:{folders})(?:/.*)?)\Z|\A(?:{system})\Z", re.DOTALL | re.IGNORECASE)
