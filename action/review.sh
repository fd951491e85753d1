#!/usr/bin/env bash
# Review, and write the outputs of the action. The key is in the environment of the program alone.
set -uo pipefail

AGENT="${AGENT:-$RUNNER_TEMP/agent-review/bin/agent}"
PYTHON="${PYTHON:-$RUNNER_TEMP/agent-review/bin/python}"
review="$RUNNER_TEMP/agent-review.json"
text="$RUNNER_TEMP/agent-review.txt"
rm -f "$review" "$text"
# A file of that name may come with the pull request, or be a link to somewhere else.
for each in "$SARIF_FILE" "$PR_REVIEW_FILE"; do
  [[ -z "$each" ]] || rm -f -- "$each" || exit 2
done

if [[ ! "$API_KEY_VARIABLE" =~ ^[A-Z][A-Z0-9_]*_(API_KEY|TOKEN)$ ]]; then
  echo "::error title=agent review::api-key-variable is the name of a variable such as ANTHROPIC_API_KEY"
  echo "exit-code=2" >> "$GITHUB_OUTPUT"
  exit 2
fi
base="${BASE:-${BASE_BRANCH:+origin/$BASE_BRANCH}}"

arguments=(review --format github --also "json=$review" --also "text=$text" --fail-on "$FAIL_ON" --quiet)
add() { [[ -z "$2" ]] || arguments+=("$1=$2"); }
add --base "$base"
add --model "$MODEL"
add --effort "$EFFORT"
add --max-findings "$MAX_FINDINGS"
add --max-cost "$MAX_COST"
add --timeout "$TIMEOUT"
if [[ -n "$PREVIOUS" && ! -e "$PREVIOUS" ]]; then
  echo "agent review: there is no review of an earlier push yet" >&2
  PREVIOUS=""
fi
add --previous "$PREVIOUS"
add --also "${SARIF_FILE:+sarif=$SARIF_FILE}"
add --also "${PR_REVIEW_FILE:+pr-review=$PR_REVIEW_FILE}"
[[ -z "$INSTRUCTIONS" ]] || arguments+=(-- "$INSTRUCTIONS")

key="$API_KEY"
unset API_KEY GH_TOKEN
code=0
(
  export "$API_KEY_VARIABLE=$key"
  unset key
  exec "$AGENT" "${arguments[@]}"
) || code=$?
unset key

case "$code" in
  0) conclusion=success ;;
  8) conclusion=findings ;;
  *) conclusion=incomplete ;;
esac
{
  echo "conclusion=$conclusion"
  echo "exit-code=$code"
  if [[ -f "$review" ]]; then
    echo "review-path=$review"
    "$PYTHON" -I - "$review" << 'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    review = json.load(file)
for name, value in (("session-id", review["session_id"]), ("cost-usd", review["cost_usd"])):
    print(f"{name}={'' if value is None else ' '.join(str(value).split())}")
PYTHON
  fi
} >> "$GITHUB_OUTPUT"
if [[ "$SUMMARY" == "true" && -f "$text" ]]; then
  sed 's/^/    /' "$text" >> "$GITHUB_STEP_SUMMARY"
fi
exit "$code"
