#!/bin/sh
# Runs in the folder that the agent worked in, and writes the reward as Harbor expects it.
tests=${TESTS_DIR:-/tests}
logs=${VERIFIER_DIR:-/logs/verifier}
mkdir -p "$logs"
reward=0
# A program under test that ends early ends the check with it: only the last line says that all was seen.
python3 -B "$tests/check.py" | tee /dev/stderr | grep -qx "every check passed" && reward=1
echo "$reward" >"$logs/reward.txt"
[ "$reward" = 1 ]
