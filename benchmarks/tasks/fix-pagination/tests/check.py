import os
import sys

sys.path.insert(0, os.getcwd())
from paging import pages

assert pages(list(range(10)), 4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
assert pages([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]
assert pages([], 3) == []
assert pages([1], 3) == [[1]]
for size in (0, -1):
    try:
        pages([1], size)
    except ValueError:
        continue
    raise AssertionError(f"size {size} raised no ValueError")
print("every check passed")
