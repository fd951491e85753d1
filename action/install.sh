#!/usr/bin/env bash
# Install the program that this action comes with, so that the version of the action is that of the program.
set -euo pipefail
# Python finds modules where it stands: not in the files of the pull request.
cd "$RUNNER_TEMP"

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "::error title=agent review::Python 3.11 or newer is needed; actions/setup-python brings it"
  exit 1
}
python3 -I -m venv "$RUNNER_TEMP/agent-review"
"$RUNNER_TEMP/agent-review/bin/pip" install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH/.."
