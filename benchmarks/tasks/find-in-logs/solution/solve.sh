#!/bin/sh
request=$(sed -n 's/.*req=\([0-9a-f]*\) POST \/orders\/7714\/payment.*/\1/p' logs/gateway.log)
first=$(grep -H "req=$request ERROR" logs/*.log | sed 's/^logs\/\(.*\)\.log:.*seq=\([0-9]*\).*ERROR \(E[0-9]*\).*/\2 \1 \3/' | sort -n | head -n 1)
set -- $first
printf '{"request_id": "%s", "service": "%s", "error": "%s"}\n' "$request" "$2" "$3" >answer.json
