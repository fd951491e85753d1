#!/usr/bin/env bash
# Decide whether this event may start a review, which costs money and reads with a key at hand.
set -euo pipefail

refuse() {
  echo "conclusion=refused" >> "$GITHUB_OUTPUT"
  # A name is a stranger's text: no line end or command gets out of it.
  local text="${1//[^[:alnum:] .,:\/_\[\]\'()-]/_}"
  echo "::error title=agent review::${text}"
  exit 1
}

listed() {
  local each
  local -a names
  IFS=', ' read -ra names <<< "$2"
  for each in "${names[@]}"; do
    [[ "${each,,}" == "${1,,}" ]] && return 0
  done
  return 1
}

checked_out() { git rev-parse HEAD 2> /dev/null || true; }

may_start() {
  local actor="$1" permission
  if [[ "$actor" == *"[bot]" || ("$actor" == "$ACTOR" && "${SENDER_TYPE:-}" == "Bot") ]]; then
    listed "$actor" "$ALLOWED_BOTS" || refuse "$actor is a bot; allowed-bots names those that may start a review"
    return
  fi
  listed "$actor" "$ALLOWED_ACTORS" && return
  permission="$(gh api "repos/$REPOSITORY/collaborators/$actor/permission" --jq .permission 2> /dev/null || true)"
  case "$permission" in
    admin | maintain | write) ;;
    *) refuse "$actor has no write access to $REPOSITORY; allowed-actors names others who may start a review" ;;
  esac
}

case "$EVENT" in
  pull_request_target | workflow_run | issue_comment | pull_request_review | pull_request_review_comment)
    # These run with secrets, also for a pull request from a fork.
    if [[ "${HEAD_REPOSITORY:-}" != "$REPOSITORY" && "$(checked_out)" != "$BASE_COMMIT" ]]; then
      refuse "$EVENT runs with secrets, and code of a stranger is checked out: use the event pull_request"
    fi
    ;;
esac

[[ "$ACTOR" =~ ^[A-Za-z0-9_.-]+(\[bot\])?$ ]] || refuse "the actor has no plain name"
may_start "$ACTOR"
if [[ -n "${TRIGGERING_ACTOR:-}" && "$TRIGGERING_ACTOR" != "$ACTOR" ]]; then
  [[ "$TRIGGERING_ACTOR" =~ ^[A-Za-z0-9_.-]+(\[bot\])?$ ]] || refuse "the triggering actor has no plain name"
  may_start "$TRIGGERING_ACTOR"
fi

if [[ "$EVENT" == "pull_request" && -n "${HEAD_COMMIT:-}" && "$(checked_out)" != "$HEAD_COMMIT" ]]; then
  refuse "check out the head of the pull request: actions/checkout with its ref github.event.pull_request.head.sha"
fi
# It stands if the installation fails, or the review ends before it can write its own.
echo "conclusion=incomplete" >> "$GITHUB_OUTPUT"
