// `npm test`, with what the tests need. Arguments go to vitest: `npm test -- --project=unit layout`.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { goProgram, goProgramMissing, goPrograms } from "./go-programs.mjs";
import { ensureBuild, ensureDependencies, ensurePackages } from "./setup.mjs";

const args = process.argv.slice(2);

ensureDependencies();
ensureBuild();
if (!args.includes("--project=unit")) {
  ensurePackages({
    chromium: "/usr/bin/chromium",
    curl: "/usr/bin/curl",
    // An engine and another language are more than a developer's machine should get unasked.
    ...(process.env.CI && {
      "docker.io": "/usr/sbin/dockerd",
      "php-cli": "/usr/bin/php",
      "php-redis": "/usr/lib/php/*/redis.so",
    }),
    "default-jdk-headless": "/usr/bin/javac",
    "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "etcd-client": "/usr/bin/etcdctl",
    "etcd-server": "/usr/bin/etcd",
    gcc: "/usr/bin/cc",
    "libc6-dev": "/usr/include/stdlib.h",
    "libhsqldb-java": "/usr/share/java/hsqldb.jar",
    "libzookeeper-java": "/usr/share/java/zookeeper.jar",
    "mariadb-client-core": "/usr/bin/mariadb",
    "mariadb-server-core": "/usr/sbin/mariadbd",
    maven: "/usr/bin/mvn",
    "nats-server": "/usr/sbin/nats-server",
    openssl: "/usr/bin/openssl",
    pgbouncer: "/usr/sbin/pgbouncer",
    postgresql: "/usr/lib/postgresql/*/bin/initdb",
    python3: "/usr/bin/python3",
    "python3-venv": "/usr/lib/*/ensurepip",
    "redis-server": "/usr/bin/redis-server",
    sqlite3: "/usr/bin/sqlite3",
  });
}

// A run of all tests builds them once, before they begin; else the first test that needs one does.
if (args.every((arg) => arg.startsWith("-") && arg !== "--project=unit")) {
  for (const name of goPrograms) {
    const missing = goProgramMissing(name);
    if (missing === undefined) goProgram(name);
    else process.env[`${name.toUpperCase().replaceAll("-", "_")}_MISSING`] = missing;
  }
}

/** Servers and builds of tests end soon: more memory for less collection of garbage, and no second compiler of Java. */
const tuning = { GOGC: "800", GOMEMLIMIT: "2GiB", MAVEN_OPTS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" };

const folder = mkdtempSync(join(tmpdir(), "snowlease-test-"));
const results = join(folder, "results.json");
const reporters = ["--reporter=default", "--reporter=./scripts/results.mjs"];
const { status } = spawnSync(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...reporters, ...args], {
  stdio: "inherit",
  env: { ...tuning, ...process.env, VITEST_RESULTS_FILE: results },
});
const { passed, failed, failures } = count();
rmSync(folder, { recursive: true });

console.log(`\n${failures.map((failure) => `FAILED ${failure}\n`).join("")}${passed} passed, ${failed} failed`);
process.exitCode = status ?? 1;

/** A run that went wrong without a failed test (a crash, a file that does not load, a stray rejection) counts as one. */
function count() {
  const atLeast = status === 0 ? 0 : 1;
  try {
    const counted = JSON.parse(readFileSync(results, "utf8"));
    return { ...counted, failed: Math.max(counted.failed, atLeast) };
  } catch {
    return { passed: 0, failed: 1, failures: ["before there were results"] };
  }
}
