#!/bin/sh
# Measures the Java client beside its peers: `sh bench/clients/java/run.sh REGISTRY [ROUNDS]`. Needs Java 17 or later, and Maven.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
client=$here/../../../clients/java
peers=${XDG_CACHE_HOME:-$HOME/.cache}/snowlease/java/peers
mvn -q -B -ntp -f "$client/pom.xml" -pl snowlease -DskipTests package >&2
mvn -q -B -ntp -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$peers" >&2
exec java -cp "$client/snowlease/target/snowlease-0.1.0.jar:$peers/*" "$here/Bench.java" "$@"
