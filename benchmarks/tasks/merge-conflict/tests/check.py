import os
import pathlib
import sys

for name in ("settings.py", "README.md"):
    text = pathlib.Path(name).read_text()
    assert not any(mark in text for mark in ("<<<<<<<", "=======", ">>>>>>>")), name
readme = pathlib.Path("README.md").read_text()
assert all(word in readme for word in ("address", "port", "timeout", "8443", "30")), readme
assert "host" not in readme, readme

sys.path.insert(0, os.getcwd())
import settings

assert settings.DEFAULTS == {"address": "localhost", "port": 8443, "timeout": 30}
assert settings.load({})["url"] == "http://localhost:8443"
assert settings.load({"address": "a", "port": 1})["url"] == "http://a:1"
for wrong in ({"timeout": 0}, {"host": "a"}):
    try:
        settings.load(wrong)
    except ValueError:
        continue
    raise AssertionError(f"{wrong} was accepted")
print("every check passed")
