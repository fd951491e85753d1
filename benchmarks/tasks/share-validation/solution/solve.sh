#!/bin/sh
cat >shop/codes.py <<'END'
"""Codes of goods."""


def check_code(code):
    """Return a code in its usual form, or raise ValueError."""
    code = code.strip().upper()
    if len(code) != 6 or not code.isalnum():
        raise ValueError(f"not a code: {code}")
    return code
END
cat >shop/orders.py <<'END'
"""Orders of the shop."""

from .codes import check_code


def order(code, count):
    """Return a line of an order."""
    return {"code": check_code(code), "count": count}
END
cat >shop/invoices.py <<'END'
"""Invoices of the shop."""

from .codes import check_code


def invoice(code, price):
    """Return a line of an invoice."""
    return f"{check_code(code)} {price:.2f}"
END
cat >shop/returns.py <<'END'
"""Returned goods."""

from .codes import check_code


def refund(code, reason):
    """Return an entry for a refund; labels on parcels have dashes."""
    return (check_code(code.replace("-", "")), reason)
END
