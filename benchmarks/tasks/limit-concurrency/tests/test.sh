#!/bin/sh
# Runs in the folder that the agent worked in, and writes the reward as Harbor expects it.
tests=${TESTS_DIR:-/tests}
logs=${VERIFIER_DIR:-/logs/verifier}
mkdir -p "$logs"
reward=0
node "$tests/check.js" && reward=1
echo "$reward" >"$logs/reward.txt"
[ "$reward" = 1 ]
