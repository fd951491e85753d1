"""Invoices of the shop."""


def _check_code(code):
    code = code.strip().upper()
    if len(code) != 6 or not code.isalnum():
        raise ValueError(f"not a code: {code}")
    return code


def invoice(code, price):
    """Return a line of an invoice."""
    return f"{_check_code(code)} {price:.2f}"
