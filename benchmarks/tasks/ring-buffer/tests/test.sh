#!/bin/sh
# Runs in the folder that the agent worked in, and writes the reward as Harbor expects it.
tests=${TESTS_DIR:-/tests}
logs=${VERIFIER_DIR:-/logs/verifier}
mkdir -p "$logs"
reward=0
build=$(mktemp -d)
cc -std=c11 -Wall -Wextra -I. -Dmalloc=checked_malloc -include stdlib.h -c ring.c -o "$build/ring.o" &&
    cc -std=c11 -I. "$tests/check.c" "$build/ring.o" -o "$build/check" &&
    timeout 10 "$build/check" | grep -qx "every check passed" && reward=1
rm -rf "$build"
echo "$reward" >"$logs/reward.txt"
[ "$reward" = 1 ]
