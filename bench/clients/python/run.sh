#!/bin/sh
# Measures the Python client beside its peers, which pip installs: `sh bench/clients/python/run.sh REGISTRY`. Needs Python 3.9 or later, with venv.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
peers=${XDG_CACHE_HOME:-$HOME/.cache}/snowlease/python/peers
test -e "$peers/bin/pip" || python3 -m venv "$peers" >&2
"$peers/bin/pip" install -q --disable-pip-version-check snowflake-id==1.0.2 simpleflake==0.1.5 >&2
PYTHONPATH="$here/../../../clients/python/src" exec "$peers/bin/python" "$here/bench.py" "$@"
