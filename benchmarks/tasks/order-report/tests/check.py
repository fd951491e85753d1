import json
import pathlib
import subprocess
import sys
import tempfile


def report(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "orders.csv")
        path.write_text(text)
        done = subprocess.run([sys.executable, "report.py", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


given = report(pathlib.Path("orders.csv").read_text())
assert given == {
    "Miller": {"orders": 3, "total": "13.30"},
    "Odd, Inc.": {"orders": 1, "total": "1200.50"},
    "Zoe": {"orders": 2, "total": "0.30"},
}, given
assert list(given) == ["Miller", "Odd, Inc.", "Zoe"]
many = report("customer,amount,status\n" + "B,0.01,paid\n" * 1001 + "A,\"1,000,000.01\",open\n")
assert many == {"A": {"orders": 1, "total": "1000000.01"}, "B": {"orders": 1001, "total": "10.01"}}, many
assert report("customer,amount,status\n") == {}
print("every check passed")
