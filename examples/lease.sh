#!/bin/sh
# A worker ID for any program, over HTTP: claims one, runs the program with WORKER_ID set, renews, stops the program before the window
# ends, gives the worker ID back. `snowlease exec` does the same and more (it stops what the program started, too); this is for
# machines that have curl and no Node.
#
#   SNOWLEASE_REGISTRY=http://127.0.0.1:7070 sh examples/lease.sh PROGRAM [ARGUMENT…]
#
# A program that makes IDs by itself knows nothing of windows. It is protected only by being stopped in time: not when this script
# is killed with -9 or stopped. SNOWLEASE_NAMESPACE, SNOWLEASE_TOKEN and SNOWLEASE_WINDOW (whole seconds like 30s, at
# least 10s) are heeded. Needs curl, and a `date` that knows milliseconds (GNU).
set -eu

leases=${SNOWLEASE_REGISTRY:-http://127.0.0.1:7070}/v1/${SNOWLEASE_NAMESPACE:-default}/leases
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
# Longest request, and how long before the end of the window the program is asked to end and is killed, ms.
request=2000 margin=4000 force=1000

window=${SNOWLEASE_WINDOW:-30s}
case ${window%s} in "$window" | "" | *[!0-9]*)
  echo "SNOWLEASE_WINDOW has to be in whole seconds, such as 30s, and is \`$window\`" >&2
  exit 2
  ;;
esac

now() { date +%s%3N; }

# ask METHOD PATH BODY: the answer, or the problem with status 1; status 2 where there was none.
ask() {
  reply=$(authorization | curl --config - --silent --show-error --max-time $((request / 1000)) --request "$1" \
    --header 'content-type: application/json' --data "$3" --write-out '\n%{http_code}' "$leases$2") || return 2
  printf '%s\n' "$reply" | sed '$d'
  case ${reply##*
} in 2*) ;; *) return 1 ;; esac
}

# Among a program's arguments everybody on this machine could read the token.
authorization() {
  if [ -n "${SNOWLEASE_TOKEN:-}" ]; then printf 'header = "Authorization: Bearer %s"\n' "$SNOWLEASE_TOKEN"; fi
}

# field NAME: a number of the answer.
field() { printf '%s' "$answer" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

answer=$(ask POST "" "{\"token\":\"$token\",\"now\":$(now),\"windowMs\":${window%s}000,\"continues\":false,\
\"host\":\"$(uname -n)\",\"pid\":$$}") || {
  echo "no worker ID: $answer" >&2
  exit 1
}
worker=$(field workerId) until=$(field until) renew_after=$(field renewAfterMs)
due=$(($(now) + renew_after))
while [ "$(now)" -lt "$(field from)" ]; do sleep 0.1; done

WORKER_ID=$worker "$@" &
program=$!
trap 'kill "$program" 2>/dev/null || true' TERM INT HUP

# running UNTIL: whether the program runs at that time still, after at most a short pause.
running() { kill -0 "$program" 2>/dev/null && [ "$(now)" -lt "$1" ] && sleep 0.2; }

while running $((until - margin)); do
  [ "$(now)" -ge "$due" ] || continue
  if answer=$(ask PATCH "/$worker" "{\"token\":\"$token\",\"now\":$(now)}"); then
    until=$(field until)
    due=$(($(now) + renew_after))
  else
    case $answer in
    *LEASE_LOST*)
      # Nobody else has the rest of the window: the program may end in its own time.
      echo "the lease of worker ID $worker is lost: $answer" >&2
      break
      ;;
    *) due=$(($(now) + 500)) ;;
    esac
  fi
done
kill "$program" 2>/dev/null || true
while running $((until - force)); do :; done
kill -9 "$program" 2>/dev/null || true
wait "$program" && status=0 || status=$?

# Without a last timestamp: nobody knows what the program used, so the window stays closed to its end.
ask DELETE "/$worker" "{\"token\":\"$token\"}" >/dev/null || true
exit "$status"
