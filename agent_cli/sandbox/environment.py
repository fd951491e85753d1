"""What a child process sees of our environment: everything but the keys to model providers, and never a
program that would wait for a person."""

from collections.abc import Mapping

CALL_TAG = "AGENT_CALL"
"""Names the call a process belongs to, so that it is found again after it has left its session."""

_QUIET = {
    "AGENT": "agent-cli",
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
}

_GIT_SAFETY = (("safe.bareRepository", "explicit"), ("core.fsmonitor", "false"))
"""So that reading a directory somebody else made cannot make git run a program from it."""

_MISLEADING = frozenset({"CDPATH"})
"""With it `cd src` may go elsewhere than the permissions were asked for."""

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


def is_provider_secret(name: str) -> bool:
    """Whether a variable of this name holds a key to a model provider."""
    upper = name.upper()
    return upper in _SECRETS or upper.endswith(_SECRET_ENDINGS)


def child_env(base: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a command: `base` without provider keys, questions switched off, then `extra`;
    git's guards come last.

    What the user sets on purpose in `extra` wins over everything, a key included.
    """
    kept = {
        name: value for name, value in base.items() if not is_provider_secret(name) and name not in _MISLEADING
    }
    env = {**kept, **_QUIET, **(extra or {})}
    return {**env, **_git_safety(env)}


def _git_safety(env: Mapping[str, str]) -> dict[str, str]:
    """Settings for git, behind those that are there already; a count that is no number counts as none."""
    written = env.get("GIT_CONFIG_COUNT", "")
    first = int(written) if written.isascii() and written.isdigit() else 0
    added = {"GIT_CONFIG_COUNT": str(first + len(_GIT_SAFETY))}
    for place, (name, value) in enumerate(_GIT_SAFETY, start=first):
        added |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
    return added
