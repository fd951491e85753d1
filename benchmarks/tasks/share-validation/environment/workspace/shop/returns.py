"""Returned goods."""


def _check_code(code):
    code = code.strip().upper().replace("-", "")
    if len(code) != 6 or not code.isalnum():
        raise ValueError(f"not a code: {code}")
    return code


def refund(code, reason):
    """Return an entry for a refund; labels on parcels have dashes."""
    return (_check_code(code), reason)
