"""Write `agent_cli/model/catalog/catalog.json` from the table of the installed LiteLLM.

Run it when the LiteLLM range moves: `.venv/bin/python scripts/make_catalog.py`; it prints what changed.
With `--check` it writes nothing and fails when the file would change.
"""

import json
import sys
from typing import Any

from agent_cli.model.catalog.catalog import CATALOGUE, litellm_table
from agent_cli.model.catalog.row import Row, row_of

PROVIDERS = (
    "anthropic", "openai", "gemini", "xai", "deepseek", "mistral", "groq", "moonshot", "zai", "cerebras",
    "together_ai", "fireworks_ai", "openrouter", "dashscope", "nvidia_nim",
)  # fmt: skip
MODES = ("chat", "responses")
_NOT_FOR_AGENTS = ("ft:", "realtime", "audio", "tts", "image", "transcribe", "moderation", "voice", "-live")


def catalogue(table: dict[str, Any]) -> dict[str, dict[str, Row]]:
    """Rows by provider and model, for models that can chat."""
    chosen: dict[str, dict[str, Row]] = {provider: {} for provider in PROVIDERS}
    for key, entry in table.items():
        provider = entry.get("litellm_provider")
        if provider not in chosen or entry.get("mode") not in MODES:
            continue
        model = key.removeprefix(f"{provider}/")
        if any(word in model for word in _NOT_FOR_AGENTS) or entry.get("supports_function_calling") is False:
            continue
        row = row_of(entry)
        if row.cells():
            chosen[provider][model] = row
    return {provider: dict(sorted(models.items())) for provider, models in chosen.items() if models}


def compact(models: dict[str, dict[str, Row]]) -> str:
    """One model a line, so that a change can be read."""
    blocks = []
    for provider, rows in models.items():
        lines = [
            f"{json.dumps(name)}:{json.dumps(row.cells(), separators=(',', ':'))}" for name, row in rows.items()
        ]
        blocks.append(f"{json.dumps(provider)}:{{\n" + ",\n".join(lines) + "}")
    return "{" + ",\n".join(blocks) + "}\n"


def main() -> None:
    """The command line."""
    path = litellm_table()
    if path is None:
        sys.exit("litellm is not installed")
    text = compact(catalogue(json.loads(path.read_text(encoding="utf-8"))))
    before = CATALOGUE.read_text(encoding="utf-8") if CATALOGUE.exists() else ""
    old, new = set(before.splitlines()), set(text.splitlines())
    for sign, lines in (("-", old - new), ("+", new - old)):
        for line in sorted(lines):
            print(sign, line)
    if "--check" in sys.argv:
        sys.exit(int(text != before))
    CATALOGUE.write_text(text, encoding="utf-8")
    print(f"{CATALOGUE}: {len(text) / 1000:.0f} KB")


if __name__ == "__main__":
    main()
