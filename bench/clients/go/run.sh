#!/bin/sh
# Measures the Go client beside its peers, which Go downloads: `sh bench/clients/go/run.sh REGISTRY`. Needs Go 1.21 or later.
set -eu
cd "$(dirname "$0")"
exec go run . "$@"
