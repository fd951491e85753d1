"""Find the commands that print a secret, such as the token of a service or an entry of a key ring. They ask like
reading a secret file."""

import re

from ..rules.dangers import is_said
from ..rules.path_verdict import Policy
from .parser import SimpleCommand, Unsure, Word
from .rule_matching import allowing_rule
from .wrappers import normalize

_COMPOSE_CONFIG = r" (config|convert) (?!(.* )?(--(services|quiet|images|volumes|profiles)|-q) )"
"""The settings of containers with the values of `.env` in them."""
_SECRETS: dict[str, str] = {
    "gh": r" auth (token|git-credential) | auth status .*(-t|--show-token) ",
    "glab": r" auth (git-credential|status .*(-t|--show-token)) | config get (.* )?token ",
    "git": r"^ credential(-\S+)? (.* )?(fill|get) ",
    "gcloud": r" print-(access|identity)-token | secrets versions access | config-helper ",
    "aws": r" configure (get (.* )?\S*(secret|token)\S*|export-credentials) | sts (get-(session|federation)-token"
    r"|assume-role\S*) | (batch-)?get-secret-value | ssm get-param.* --with-decryption | create-access-key"
    r" | eks get-token ",
    "az": r" get-access-token | keyvault secret (show|download) | keys? list | show-connection-string"
    r" | acr credential show | create-for-rbac | appsettings list | --expose-token ",
    **dict.fromkeys(
        ["kubectl", "oc"],
        r" config view .*--raw| create token | whoami (-t|--show-token) "
        r"|^(?=.* get )(?=.* (\S+,)?secrets?([/,]\S*)? ).* ((-o|--output)[ =]?(json|yaml|go-t|custom)|--template)",
    ),
    "npm": r"^ token create ",
    **dict.fromkeys(
        ["pass", "gopass"],
        r"^ (?!(ls|list|find|search|git|init|insert|edit|rm|remove|delete|mv|rename|cp|copy|help|version) |-)\S",
    ),
    "op": r" (read|inject|item get|document get) | --raw ",
    "bw": r" (get (password|totp|item|notes)|list items|export|unlock) ",
    "lpass": r" (show|export) ",
    "keyring": r" get ",
    "secret-tool": r" (lookup|search) ",
    "security": r" find-(generic|internet)-password .*-[a-z]*[gw] | dump-keychain .*-[a-z]*d ",
    "vault": r" (read|kv get|print token|token create|unwrap) ",
    "doppler": r" secrets (?!(set|delete|upload|notes) )| configs tokens create ",
    "infisical": r" (secrets (?!(set|delete) )|export )",
    "heroku": r" (auth:token|config(:get)?|pg:credentials:url) ",
    **dict.fromkeys(
        ["docker", "podman"],
        rf" compose (.* )?{_COMPOSE_CONFIG[1:]}| stack config | secret inspect .*--showsecret",
    ),
    **dict.fromkeys(["dotenv", "dotenvx"], " (get|list) "),
    **dict.fromkeys(["age", "rage"], " (-d|--decrypt) "),
    "rclone": " config (show|dump) ",
    **dict.fromkeys(["docker-compose", "podman-compose"], _COMPOSE_CONFIG),
    **dict.fromkeys(
        ["terraform", "tofu", "terragrunt"],
        r"(?i) output (.* )?(?!-)\S*(passw|secret|token|credential|(private|access|api)_?key)\S* ",
    ),
    "systemctl": " show-environment ",
    "stripe": " config (.* )?--list ",
    "netlify": " env:(list|get) ",
    "railway": " variables? (?!(.* )?--set)",
    "firebase": " functions:(config:get|secrets:access) ",
    **dict.fromkeys(["neon", "neonctl"], " connection-string "),
    **dict.fromkeys(["fly", "flyctl"], r" (auth token|tokens create) "),
    "supabase": r" projects api-keys ",
    "databricks": r" auth token ",
    "sops": r" (-d|--decrypt|decrypt) ",
    "ansible-vault": r" view | decrypt .*--output[ =]- ",
    "aws-vault": r" export ",
    "chamber": r" (read|export|env) ",
    "pulumi": r" --show-secrets ",
    "rails": r" (credentials|encrypted|secrets):show ",
    **dict.fromkeys(["gpg", "gpg2"], r" --export-secret"),
}
"""For each program, the arguments, joined and surrounded by spaces, with which it prints a secret. What is made to
be piped into a login, such as `aws ecr get-login-password`, is left out."""
_HELPER = r"(docker|git)-credential-[\w-]+"


def prints_secret(command: SimpleCommand) -> bool:
    """Return True if a command prints a secret."""
    try:
        name, *arguments = normalize(command) or ("",)
    except Unsure:
        return False
    if re.fullmatch(_HELPER, name):  # looks at nothing behind its verb
        return "get" in arguments
    is_help = "--help" in arguments or arguments[:1] == ["help"]
    return name in _SECRETS and not is_help and is_said(_SECRETS[name], arguments)


def secret_is_granted(command: SimpleCommand, policy: Policy) -> bool:
    """Return True if a rule allows a command and itself says that it prints a secret: `gh auth token` does, `gh *`
    does not."""
    rules = (allowing_rule(command, policy), allowing_rule(command, policy, "outside"))
    patterns = (rule.pattern.replace("*", "").split() for rule in rules if rule)
    return any(prints_secret(SimpleCommand(tuple(map(Word, words)))) for words in patterns)
