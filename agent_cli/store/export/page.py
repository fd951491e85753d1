"""Frame of an HTML page: one file, no network, light and dark mode. Pure except for reading its style sheet."""

import base64
import hashlib
from html import escape
from pathlib import Path

from agent_cli.protocol.sanitize import clean


def document(title: str, body: str, more_style: str = "", script: str = "") -> str:
    """Return a whole page. A content security policy allows only the page's own style and images, and its script,
    if any.

    Args:
        title: plain text.
        body: HTML in which all foreign text is already escaped.
        more_style: CSS appended to the common style.
        script: our JavaScript, which runs after the body is loaded.
    """
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8") + more_style
    runs = f"; script-src {_hash(script)}" if script else ""
    policy = (
        f"default-src 'none'; style-src {_hash(style)}{runs}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    code = f"<script>{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(clean(title))}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{code}</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    """Return a CSP source expression that allows exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
