import os
import subprocess
import sys

done = subprocess.run([sys.executable, "-B", "-m", "unittest", "-q", "test_textwidth"])
assert done.returncode == 0

sys.path.insert(0, os.getcwd())
from textwidth import fit, width

assert width("") == 0
assert width("x\u0308日") == 3
assert fit("ＡＢ", 3) == "Ａ"
assert fit("o\u0302\u0323p", 1) == "o\u0302\u0323"
print("every check passed")
