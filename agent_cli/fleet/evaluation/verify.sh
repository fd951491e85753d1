#!/bin/bash
# Runs the tests of a task in the tree, and turns the reward they write into an exit code: 0 for a reward of 1, 1 for
# less, 126 without one. Where bubblewrap works, tests find the folders of a container.
top=$PWD
logs=$(mktemp -d) || exit 126
trap 'rm -rf "$logs"' EXIT
mkdir "$logs/logs" "$logs/logs/verifier" "$logs/logs/agent" "$logs/logs/artifacts"
while IFS= read -r file; do
    to=$logs/${file#.harbor/}
    mkdir -p "${to%/*}" && cp -p "$file" "$to" || exit 126
done <<'FILES'
@FILES@
FILES
workdir=@WORKDIR@
export TESTS_DIR="$logs/tests" VERIFIER_DIR="$logs/logs/verifier"
@EXPORTS@
arguments=(--die-with-parent --tmpfs /)
for entry in /*; do
    case $entry in
        /tests | /logs) ;;
        *) if [ -L "$entry" ]; then arguments+=(--symlink "$(readlink "$entry")" "$entry")
           else arguments+=(--dev-bind "$entry" "$entry"); fi ;;
    esac
done
arguments+=(--bind "$logs/tests" /tests --bind "$logs/logs" /logs)
# A folder in one that the machine has, such as /root/work, cannot be added to it.
if [[ $workdir =~ ^/[^/]+$ && ! -e $workdir ]]; then
    arguments+=(--bind "$top" "$workdir" --chdir "$workdir")
else
    arguments+=(--chdir "$top")
fi

if bwrap "${arguments[@]}" true 2>/dev/null; then
    bwrap "${arguments[@]}" "$TESTS_DIR/test.sh"
else
    "$TESTS_DIR/test.sh"
fi

if [ -s "$VERIFIER_DIR/reward.json" ]; then
    reward=$(python3 -c 'import json, math, sys
found = json.load(sys.stdin)
values = list(found.values()) if isinstance(found, dict) else [found]
if not values or not all(type(each) in (int, float) and math.isfinite(each) for each in values): sys.exit(1)
print(min(values))' <"$VERIFIER_DIR/reward.json") || reward=
else
    reward=$(cat "$VERIFIER_DIR/reward.txt" 2>/dev/null)
fi
if ! [[ $reward =~ ^[[:space:]]*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[[:space:]]*$ ]]; then
    echo "The tests wrote no reward." >&2
    exit 126
fi
echo "Reward: $reward"
awk -v reward="$reward" 'BEGIN { exit !(reward + 0 >= 1) }'
