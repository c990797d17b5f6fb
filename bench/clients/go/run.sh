#!/bin/sh
# Measures the Go client beside its peers, which Go downloads: `sh bench/clients/go/run.sh REGISTRY`, of a daemon that may make namespaces.
set -eu
cd "$(dirname "$0")"
exec go run . "$@"
