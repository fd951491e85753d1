"""The frame of an HTML page: one file, no network, light and dark. Pure but for reading its style."""

import base64
import hashlib
from html import escape
from pathlib import Path

from agent_cli.protocol.sanitize import clean


def document(title: str, body: str, more_style: str = "", script: str = "") -> str:
    """Return a whole page. A content security policy allows nothing but the page's own style, its pictures, and
    the one script that it brings, if any.

    Args:
        title: plain text.
        body: HTML, in which everything foreign is escaped already.
        more_style: CSS behind that of all pages.
        script: JavaScript of ours, which runs when the body is there.
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
    """Return a source expression that allows this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
