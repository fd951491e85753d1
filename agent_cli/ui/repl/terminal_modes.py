"""Modes of the terminal that the screen switches on, and what undoes them. Loads no line editor."""

MODES_ON = "\x1b[?1004h\x1b[>4;1m\x1b[m"
"""Reports of focus; Shift-Enter told from Enter (xterm's modifyOtherKeys). A terminal that takes the latter for a
colour has it reset at once."""
MODES_OFF = "\x1b[?1004l\x1b[>4m\x1b[m"
RESET = f"\x1b[?2026l\x1b[?2004l{MODES_OFF}\x1b[?7h\x1b[?25h"
"""Undoes every mode that the screen uses: held updates, bracketed paste, the two above, no wrapping, no cursor."""
CLEAR_BELOW = "\x1b[J"
"""Takes away what stood below the input line."""
