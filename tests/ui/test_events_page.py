"""`docs/events.md` says what the types say."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_events", DOCS / "make_events.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (DOCS / "events.md").read_text(encoding="utf-8")
    assert written == module.page(), "run: python docs/make_events.py"
