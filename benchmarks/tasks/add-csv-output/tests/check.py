import csv
import io
import subprocess
import sys


def run(*arguments):
    return subprocess.run([sys.executable, "inventory.py", *arguments], capture_output=True, text=True)


plain = 'bolt: 120 at 0.10\nnut, hex: 80 at 0.25\nplate "L": 3 at 14.00\n'
for arguments in (["stock.json"], ["stock.json", "--format", "text"], ["--format", "text", "stock.json"]):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (0, plain), (arguments, done)
for arguments in (["stock.json", "--format", "csv"], ["--format", "csv", "stock.json"]):
    done = run(*arguments)
    rows = list(csv.reader(io.StringIO(done.stdout), strict=True))
    assert done.returncode == 0, done
    assert rows[0] == ["name", "quantity", "price"], rows
    assert [row[0] for row in rows[1:]] == ["bolt", "nut, hex", 'plate "L"'], rows
    assert [(int(row[1]), float(row[2])) for row in rows[1:]] == [(120, 0.1), (80, 0.25), (3, 14)], rows
assert run("stock.json", "--format", "xml").returncode == 2
print("every check passed")
