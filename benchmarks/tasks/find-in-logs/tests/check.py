import json
import pathlib

answer = json.loads(pathlib.Path("answer.json").read_text())
assert answer == {"request_id": "c07d", "service": "stock", "error": "E208"}, answer
print("every check passed")
