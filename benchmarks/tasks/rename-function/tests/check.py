import inspect
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.getcwd())
import app
import store
from store import config, files

assert store.read_record is files.read_record
assert sorted(store.__all__) == ["read_record", "save"], store.__all__
assert not hasattr(store, "load") and not hasattr(files, "load")
assert inspect.ismethod(config.Config.load)
assert files.read_record("data/record.json") == {"name": "load", "size": 3}
assert config.Config.load("data/config.json").values == {"load": True}
assert "load" not in vars(app)

docs = pathlib.Path("docs/usage.md").read_text()
assert "`store.read_record(path)`" in docs and "`Config.load(path)`" in docs and "the key `load`" in docs, docs
assert "store.load" not in docs, docs
assert "what read_record reads" in pathlib.Path("store/files.py").read_text()

done = subprocess.run([sys.executable, "-B", "-m", "app"], capture_output=True, text=True)
record = "{'name': 'load', 'size': 3}"
assert done.stdout == f"record {record}\nagain {record}\nconfig {{'load': True}}\n", done
print("every check passed")
