"""Orders of the shop."""


def _check_code(code):
    code = code.strip().upper()
    if len(code) != 6 or not code.isalnum():
        raise ValueError(f"not a code: {code}")
    return code


def order(code, count):
    """Return a line of an order."""
    return {"code": _check_code(code), "count": count}
