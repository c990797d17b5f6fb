#!/bin/sh
# IDs in a shell: the daemon makes them on its own lease, so there is nothing to hold, to renew or to give back.
#
#   SNOWLEASE_REGISTRY=http://127.0.0.1:7070 sh examples/ids.sh [how many] [format]
#
# SNOWLEASE_NAMESPACE and SNOWLEASE_TOKEN are heeded. Needs curl.
set -eu

url=${SNOWLEASE_REGISTRY:-http://127.0.0.1:7070}/v1/${SNOWLEASE_NAMESPACE:-default}/ids
body="{\"count\":${1:-1},\"format\":\"${2:-decimal}\"}"

# Among a program's arguments everybody on this machine could read the token.
authorization() {
  if [ -n "${SNOWLEASE_TOKEN:-}" ]; then printf 'header = "Authorization: Bearer %s"\n' "$SNOWLEASE_TOKEN"; fi
}

# It may be repeated after any failure: IDs whose answer was lost stay unused.
answer=$(authorization | curl --config - --silent --show-error --fail-with-body --retry 3 --max-time 10 \
  --header 'content-type: application/json' --data "$body" "$url") || {
  echo "$answer" >&2
  exit 1
}
# {"ids":["1","2"]}
echo "$answer" | sed 's/^{"ids":\[//; s/\]}$//' | tr -d '"' | tr ',' '\n'
