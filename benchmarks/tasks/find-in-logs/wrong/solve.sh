#!/bin/sh
# Goes by the clocks, which differ.
echo '{"request_id": "c07d", "service": "mail", "error": "E611"}' >answer.json
