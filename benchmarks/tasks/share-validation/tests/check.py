import ast
import importlib
import os
import pathlib
import sys

sys.path.insert(0, os.getcwd())


def raised(function, *arguments):
    try:
        return function(*arguments)
    except ValueError as error:
        return str(error)


definitions = {}
for path in pathlib.Path("shop").glob("*.py"):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            definitions.setdefault(node.name, []).append(path.name)
assert definitions.get("check_code") == ["codes.py"], definitions
assert "_check_code" not in definitions, definitions
copies = [path.name for path in pathlib.Path("shop").glob("*.py") if "isalnum" in path.read_text()]
assert copies == ["codes.py"], copies

orders, invoices, returns, codes = (
    importlib.import_module(f"shop.{name}") for name in ("orders", "invoices", "returns", "codes")
)
for module in (orders, invoices, returns):
    assert codes in vars(module).values() or codes.check_code in vars(module).values(), module
assert orders.order(" ab12cd ", 2) == {"code": "AB12CD", "count": 2}
assert invoices.invoice("ab12cd", 3) == "AB12CD 3.00"
assert returns.refund("ab-12-cd", "broken") == ("AB12CD", "broken")
assert returns.refund("ab12cd", "broken") == ("AB12CD", "broken")
assert raised(orders.order, "ab-12-cd", 1) == "not a code: AB-12-CD"
assert raised(invoices.invoice, "ab-12-cd", 1) == "not a code: AB-12-CD"
assert raised(returns.refund, "ab-12", 1) == "not a code: AB12"
print("every check passed")
