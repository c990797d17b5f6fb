import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { cliFile, Sandbox } from "../support/cli.ts";

/*
 * What people type by mistake, the exit code, and the answer: one line that says what was expected, what was got, and what to do. `{work}`: the
 * folder in which they are, with a registry, a text and a file of one ID; `{home}`: that of the user.
 */

const mistakes: readonly (readonly [line: string, code: number, answer: string])[] = [
  ["serve", 2, "CONFIG_INVALID: Expected a command, got `serve` (string); did you mean `daemon`?"],
  ["start", 2, "CONFIG_INVALID: Expected a command, got `start` (string); did you mean `daemon`?"],
  ["list", 2, "CONFIG_INVALID: Expected a command, got `list` (string); did you mean `workers`?"],
  ["ls", 2, "CONFIG_INVALID: Expected a command, got `ls` (string); did you mean `workers`?"],
  ["status", 2, "CONFIG_INVALID: Expected a command, got `status` (string); did you mean `workers`?"],
  ["version", 2, "CONFIG_INVALID: Expected a command, got `version` (string); did you mean `--version`?"],
  [
    "--versoin",
    2,
    "CONFIG_INVALID: Expected a command before its flags, got `--versoin` (string); did you mean `--version`?",
  ],
  ["-x", 2, "CONFIG_INVALID: Expected a command before its flags, got `-x` (string); see `snowlease --help`."],
  [
    "id -n",
    2,
    "CONFIG_INVALID: `snowlease id` expected the flag `-n` to have a value: `-n NUMBER`; see `snowlease id --help`.",
  ],
  [
    "id -n 0",
    2,
    "CONFIG_INVALID: Expected `--count` to be an integer from 1 to 1000000, got `0` (string); correct it.",
  ],
  [
    "id -n -5",
    2,
    "CONFIG_INVALID: Expected `--count` to be an integer from 1 to 1000000, got `-5` (string); correct it.",
  ],
  [
    "id -n ten",
    2,
    "CONFIG_INVALID: Expected `--count` to be an integer from 1 to 1000000, got `ten` (string); correct it.",
  ],
  [
    "id -n 1.5",
    2,
    "CONFIG_INVALID: Expected `--count` to be an integer from 1 to 1000000, got `1.5` (string); correct it.",
  ],
  [
    "id -n 1e3",
    2,
    "CONFIG_INVALID: Expected `--count` to be an integer from 1 to 1000000, got `1e3` (string); correct it.",
  ],
  [
    "id --count 99999999999999",
    2,
    "CONFIG_INVALID: Expected `--count` to be an integer from 1 to 1000000, got `99999999999999` (string); correct it.",
  ],
  [
    "id extra",
    2,
    "CONFIG_INVALID: `snowlease id` expected no argument, got `extra` (string); see `snowlease id --help`.",
  ],
  [
    "id --format base32x",
    2,
    "CONFIG_INVALID: Expected `--format` to be one of decimal, hex, base36, base62, base64url, crockford32, base62sort, base64sort, json, got `base32x` (string); name one of them.",
  ],
  [
    "id --format",
    2,
    "CONFIG_INVALID: `snowlease id` expected the flag `--format` to have a value: `--format FORMAT`; see `snowlease id --help`.",
  ],
  [
    "id --registry",
    2,
    "CONFIG_INVALID: `snowlease id` expected the flag `--registry` to have a value: `--registry URL`; see `snowlease id --help`.",
  ],
  [
    "id --registry redis",
    2,
    "CONFIG_INVALID: Expected the registry URL to start with one of sqlite: memory: etcd: etcds: http: https: kubernetes: mysql: oracle: postgres: redis: rediss: redis+sentinel: redis+cluster: redis+unix: unix: zookeeper:, perhaps redis://HOST:6379, got `redis` (string); correct --registry.",
  ],
  [
    "id --registry localhost:6379",
    2,
    "CONFIG_INVALID: Expected the registry URL to start with one of sqlite: memory: etcd: etcds: http: https: kubernetes: mysql: oracle: postgres: redis: rediss: redis+sentinel: redis+cluster: redis+unix: unix: zookeeper:, perhaps redis://localhost:6379, got `localhost:6379` (string); correct --registry.",
  ],
  [
    "id --registry redis:localhost",
    2,
    "CONFIG_INVALID: Expected the registry URL to be like redis://USER:PASSWORD@HOST:PORT/NAME, with ports up to 65535, got `redis:localhost` (string); correct --registry.",
  ],
  [
    "id --registry http//localhost:7070",
    2,
    "CONFIG_INVALID: Expected the registry URL to start with one of sqlite: memory: etcd: etcds: http: https: kubernetes: mysql: oracle: postgres: redis: rediss: redis+sentinel: redis+cluster: redis+unix: unix: zookeeper:, perhaps http://HOST:7070, got `http//localhost:7070` (string); correct --registry.",
  ],
  [
    "id --registry mongodb://localhost",
    2,
    "CONFIG_INVALID: Expected the registry URL to start with one of sqlite: memory: etcd: etcds: http: https: kubernetes: mysql: oracle: postgres: redis: rediss: redis+sentinel: redis+cluster: redis+unix: unix: zookeeper:, got `mongodb://localhost` (string); correct --registry.",
  ],
  [
    "id --registry postgres://localhost",
    2,
    "CONFIG_INVALID: Expected the URL to end with the name of a database, /NAME, got `` (string); correct the registry URL.",
  ],
  [
    "id --registry mysql://root@localhost",
    2,
    "CONFIG_INVALID: Expected the URL to end with the name of a database, /NAME, got `` (string); correct the registry URL.",
  ],
  [
    "id --registry sqlite:",
    2,
    "CONFIG_INVALID: Expected the registry URL to have a path without control characters, got `sqlite:` (string); correct --registry.",
  ],
  [
    "id --registry redis://localhost:99999",
    2,
    "CONFIG_INVALID: Expected the registry URL to be like redis://USER:PASSWORD@HOST:PORT/NAME, with ports up to 65535, got `redis://localhost:99999` (string); correct --registry.",
  ],
  [
    "id --registry redis://127.0.0.1:1 --operation-timeout 300ms",
    5,
    "REGISTRY_UNAVAILABLE: Redis 127.0.0.1:1 did not answer within 300 ms (connect ECONNREFUSED 127.0.0.1:1), nothing was changed; look whether it runs and can be reached.",
  ],
  [
    "id --registry http://127.0.0.1:1 --operation-timeout 300ms",
    5,
    "REGISTRY_UNAVAILABLE: The daemon at http://127.0.0.1:1 did not answer: connect ECONNREFUSED 127.0.0.1:1; check that it runs, and that a daemon is what listens there.",
  ],
  [
    "id --registry zookeeper://127.0.0.1:1 --operation-timeout 300ms",
    5,
    "REGISTRY_UNAVAILABLE: ZooKeeper 127.0.0.1:1 did not answer within 300 ms (connect ECONNREFUSED 127.0.0.1:1), nothing was changed; look whether a majority of it runs and can be reached.",
  ],
  [
    "id --registry etcd://127.0.0.1:1 --operation-timeout 300ms",
    5,
    "REGISTRY_UNAVAILABLE: etcd 127.0.0.1:1 did not answer within 300 ms (connect ECONNREFUSED 127.0.0.1:1); nothing was changed; look whether a majority of its members runs and can be reached.",
  ],
  [
    "id --namespace Orders",
    2,
    "CONFIG_INVALID: Expected `namespace` to match [a-z][a-z0-9_]{0,31}, such as `orders`, got `Orders` (string); correct --namespace.",
  ],
  [
    "id --namespace my-app",
    2,
    "CONFIG_INVALID: Expected `namespace` to match [a-z][a-z0-9_]{0,31}, such as `my_app`, got `my-app` (string); correct --namespace.",
  ],
  [
    'id --namespace ""',
    2,
    "CONFIG_INVALID: Expected `namespace` to match [a-z][a-z0-9_]{0,31}, got `` (string); correct --namespace.",
  ],
  [
    "id --namespace a b",
    2,
    "CONFIG_INVALID: `snowlease id` expected no argument, got `b` (string); see `snowlease id --help`.",
  ],
  [
    "id --worker-id 1024",
    2,
    "CONFIG_INVALID: Expected `workerId` to be an integer from 0 to 1023 (10 bits), got `1024` (string); correct --worker-id.",
  ],
  [
    "id --worker-id -1",
    2,
    "CONFIG_INVALID: Expected `workerId` to be an integer from 0 to 1023 (10 bits), got `-1` (string); correct --worker-id.",
  ],
  [
    "id --worker-id abc",
    2,
    "CONFIG_INVALID: Expected `workerId` to be an integer from 0 to 1023 (10 bits), got `abc` (string); correct --worker-id.",
  ],
  [
    "id --worker-id 5 --worker-id 6",
    2,
    "CONFIG_INVALID: `snowlease id` expected the flag `--worker-id` once, got it twice; see `snowlease id --help`.",
  ],
  [
    "id --pool 0-2000",
    2,
    "CONFIG_INVALID: Expected `pool.last` to be an integer from 0 to 1023 (10 bits), got `2000` (number); correct --pool.",
  ],
  [
    "id --pool 10-5",
    2,
    "CONFIG_INVALID: Expected `pool` to be a range of worker IDs such as `512-1023`, or one such as `7`, got `10-5` (string); correct --pool.",
  ],
  [
    "id --pool a-b",
    2,
    "CONFIG_INVALID: Expected `pool` to be a range of worker IDs such as `512-1023`, or one such as `7`, got `a-b` (string); correct --pool.",
  ],
  [
    "id --layout twiter",
    2,
    "CONFIG_INVALID: Expected `layout` to be a preset (westid, twitter, rollback, uid, uid-datacenter, sonyflake, discord, instagram, mastodon, safe53, scene) or a notation like `timestamp:41,worker:10,sequence:12@1490346283706/1`, got `twiter` (string), which resembles `twitter`; correct --layout.",
  ],
  [
    "id --layout timestamp:41,worker:10",
    2,
    "CONFIG_INVALID: Expected `layout` to be a preset (westid, twitter, rollback, uid, uid-datacenter, sonyflake, discord, instagram, mastodon, safe53, scene) or a notation like `timestamp:41,worker:10,sequence:12@1490346283706/1`, got `timestamp:41,worker:10` (string), which lacks `@` and the epoch in Unix ms; correct --layout.",
  ],
  [
    "id --layout timestamp:41,worker:10,sequence:20",
    2,
    "CONFIG_INVALID: Expected `layout` to be a preset (westid, twitter, rollback, uid, uid-datacenter, sonyflake, discord, instagram, mastodon, safe53, scene) or a notation like `timestamp:41,worker:10,sequence:12@1490346283706/1`, got `timestamp:41,worker:10,sequence:20` (string), which lacks `@` and the epoch in Unix ms; correct --layout.",
  ],
  [
    "id --window 5",
    2,
    "CONFIG_INVALID: Expected `window` to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from 1 to 2147483647 ms, got `5` (string); correct --window.",
  ],
  [
    "id --window 10",
    2,
    "CONFIG_INVALID: Expected `window` to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from 1 to 2147483647 ms, got `10` (string); correct --window.",
  ],
  [
    "id --window 1d",
    2,
    "CONFIG_INVALID: Expected `window` to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from 1 to 2147483647 ms, got `1d` (string); correct --window.",
  ],
  [
    "id --window -1s",
    2,
    "CONFIG_INVALID: Expected `window` to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from 1 to 2147483647 ms, got `-1s` (string); correct --window.",
  ],
  [
    "id --window 0",
    2,
    "CONFIG_INVALID: Expected `window` to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from 1 to 2147483647 ms, got `0` (string); correct --window.",
  ],
  [
    "id --max-window 1s --window 1m",
    2,
    "CONFIG_INVALID: Expected `window` to be at most 1000 ms (`maxWindow`), got `60000` (number); correct --window or --max-window.",
  ],
  [
    "id --datacenter 3",
    2,
    'CONFIG_INVALID: Expected `fixed fields` to be fields of the layout timestamp:41,worker:10,sequence:12@1490346283706/1, which has worker and no datacenter, got `{"datacenter":3}` (object); correct --datacenter.',
  ],
  [
    "id --assigner ip",
    2,
    "CONFIG_INVALID: The assigner {work}/ip does not exist; name the path of a module, or use one of the options `env`, `ordinal` and `ip`, which need none.",
  ],
  [
    "id --assigner ipp",
    2,
    "CONFIG_INVALID: The assigner {work}/ipp does not exist; name the path of a module, or use one of the options `env`, `ordinal` and `ip`, which need none.",
  ],
  [
    "id --assigner statefulset",
    2,
    "CONFIG_INVALID: The assigner {work}/statefulset does not exist; name the path of a module, or use one of the options `env`, `ordinal` and `ip`, which need none.",
  ],
  [
    "id --assigner env",
    2,
    "CONFIG_INVALID: The assigner {work}/env does not exist; name the path of a module, or use one of the options `env`, `ordinal` and `ip`, which need none.",
  ],
  [
    "id --config nothing.json",
    2,
    "CONFIG_INVALID: The config file {work}/nothing.json does not exist; name another file, or none.",
  ],
  [
    "id --token",
    2,
    "CONFIG_INVALID: `snowlease id` expected the flag `--token` to have a value: `--token TOKEN`; see `snowlease id --help`.",
  ],
  [
    "exec",
    2,
    "CONFIG_INVALID: `snowlease exec` expected -- PROGRAM [ARGUMENT…], got nothing; see `snowlease exec --help`.",
  ],
  [
    "exec --",
    2,
    "CONFIG_INVALID: `snowlease exec` expected -- PROGRAM [ARGUMENT…], got nothing; see `snowlease exec --help`.",
  ],
  [
    "exec --java",
    2,
    "CONFIG_INVALID: `snowlease exec` expected -- PROGRAM [ARGUMENT…], got nothing; see `snowlease exec --help`.",
  ],
  [
    "assign --oncee",
    2,
    "CONFIG_INVALID: `snowlease assign` expected known flags, got `--oncee` (string); did you mean `--once`? See `snowlease assign --help`.",
  ],
  [
    "daemon extra",
    2,
    "CONFIG_INVALID: `snowlease daemon` expected no argument, got `extra` (string); see `snowlease daemon --help`.",
  ],
  [
    "daemon --listen",
    2,
    "CONFIG_INVALID: `snowlease daemon` expected the flag `--listen` to have a value: `--listen [HOST:]PORT`; see `snowlease daemon --help`.",
  ],
  [
    "daemon --listen localhost",
    2,
    "CONFIG_INVALID: Expected `listen` to be a port from 0 to 65535, or HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070, got `localhost` (string); correct --listen.",
  ],
  [
    "daemon --listen :7070",
    2,
    "CONFIG_INVALID: Expected `listen` to be a port from 0 to 65535, or HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070, got `:7070` (string); correct --listen.",
  ],
  [
    "daemon --listen 70700",
    2,
    "CONFIG_INVALID: Expected `listen` to be a port from 0 to 65535, or HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070, got `70700` (string); correct --listen.",
  ],
  [
    "daemon --listen 0.0.0.0:7070",
    2,
    "CONFIG_INVALID: Expected `listen` to be on 127.0.0.1, ::1 or localhost, since any client that reaches the daemon may do everything, got `0.0.0.0` (string); give it `tokens` and `tlsCert`, or say `insecure`.",
  ],
  [
    "daemon --tokens none",
    2,
    "CONFIG_INVALID: The file none of `tokens` cannot be read (ENOENT); mend its path or its permissions.",
  ],
  [
    "daemon --tls-cert a.pem",
    2,
    "CONFIG_INVALID: Expected both `tlsCert` and `tlsKey`, or no TLS option; name the missing one.",
  ],
  [
    "daemon --port",
    2,
    "CONFIG_INVALID: `snowlease daemon` expected known flags, got `--port` (string); did you mean `--listen`? See `snowlease daemon --help`.",
  ],
  ["inspect", 2, "CONFIG_INVALID: `snowlease inspect` expected ID…, got nothing; see `snowlease inspect --help`."],
  [
    "inspect 12345678901234567890123",
    2,
    "CONFIG_INVALID: Expected `id` to be text in one of decimal, hex, base36, base62, base64url, crockford32, base62sort, base64sort, got `12345678901234567890123` (string); correct the ID.",
  ],
  [
    "inspect -5",
    2,
    "CONFIG_INVALID: `snowlease inspect` expected no negative number, got `-5` (string); see `snowlease inspect --help`.",
  ],
  [
    "inspect 0x12",
    2,
    "CONFIG_INVALID: Expected `base62 text` to have no leading zeros unless they fill it up to 11 characters, got `0x12` (string); it looked like base62 (write hex without `0x`, in lower case, and name its format: hex): name its format if it is another of decimal, hex, base36, base62, base64url, crockford32, base62sort, base64sort; correct the ID.",
  ],
  [
    "inspect 1278549019894743040 --format hexx",
    2,
    "CONFIG_INVALID: Expected `--format` to be one of decimal, hex, base36, base62, base64url, crockford32, base62sort, base64sort, got `hexx` (string); name one of them.",
  ],
  [
    "inspect 1278549019894743040 --at tomorrow",
    2,
    "CONFIG_INVALID: Expected `--at` to be a time, in Unix ms or like 2026-11-20T12:02:04Z, got `tomorrow` (string); correct it.",
  ],
  [
    "explain",
    2,
    "CONFIG_INVALID: `snowlease explain` expected ID… or `--file FILE`, got nothing; see `snowlease explain --help`.",
  ],
  [
    "audit none.txt",
    2,
    "CONFIG_INVALID: IDs cannot be read from `none.txt` (string): it does not exist; name a file of IDs.",
  ],
  [
    "workers 5",
    2,
    "CONFIG_INVALID: `snowlease workers` expected no argument, got `5` (string); see `snowlease workers --help`.",
  ],
  [
    "workers --state lives --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected `--state` to be one of live, resting, free, pinned, foreign, got `lives` (string); name one of them.",
  ],
  [
    "workers --limit 0 --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: `snowlease workers` expected known flags, got `--limit` (string); see `snowlease workers --help`.",
  ],
  [
    "release",
    2,
    "CONFIG_INVALID: `snowlease release` expected WORKER_ID, got nothing; see `snowlease release --help`.",
  ],
  [
    "release 5",
    2,
    "CONFIG_INVALID: Expected a named registry, got none: the default would be sqlite:{home}/.local/state/snowlease/registry.db, a file that no other host or user sees; name the registry of your programs with `--registry URL`, SNOWLEASE_REGISTRY or `registry` in a config file (for that file: `--registry sqlite:{home}/.local/state/snowlease/registry.db`).",
  ],
  [
    "release five --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected WORKER_ID to be an integer from 0 to 2147483647, got `five` (string); correct it.",
  ],
  [
    "release 5 --registry sqlite:r.db",
    2,
    "NOT_FOUND: Worker 5 of namespace `default` was never claimed, so there is nothing to end.",
  ],
  [
    "release 0 --reset-window --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected `--reset-window` and `--i-know` together; where a holder may still run, wait until the window has passed instead.",
  ],
  ["pin 5 --registry sqlite:r.db", 2, "CONFIG_INVALID: Expected `--reason TEXT`, got nothing; give the reason."],
  [
    'pin 5 --reason "" --registry sqlite:r.db',
    2,
    "CONFIG_INVALID: Expected `reason` to be 1 to 200 characters, none of them a control character, got `` (string); say why worker 5 is pinned.",
  ],
  [
    "pin 5000 --reason x --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected `workerId` to be an integer from 0 to 1023, got `5000` (number); correct it.",
  ],
  [
    "unpin --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: `snowlease unpin` expected WORKER_ID…, got nothing; see `snowlease unpin --help`.",
  ],
  [
    "unpin 3 --registry sqlite:r.db",
    2,
    "NOT_FOUND: Not pinned in namespace `default`: 3; see `snowlease workers --state pinned`.",
  ],
  [
    "quarantine end --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected `--era ERA`, got nothing; look at the quarantine with `snowlease quarantine` first, which shows it.",
  ],
  [
    "quarantine ned --registry sqlite:r.db",
    2,
    "NOT_FOUND: This registry knows no namespace `ned`, so there is no quarantine to show or to end; check `--namespace` and `--registry`.",
  ],
  [
    "quarantine end orders --registry sqlite:r.db --i-know",
    2,
    "CONFIG_INVALID: Expected `--era ERA`, got nothing; look at the quarantine with `snowlease quarantine` first, which shows it.",
  ],
  [
    "remove --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected `--era ERA`, got nothing; look at the namespace with `snowlease quarantine` first, which shows it.",
  ],
  [
    "remove orders --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: `snowlease remove` expected no argument, got `orders` (string); see `snowlease remove --help`.",
  ],
  [
    "separate --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: Expected `--era ERA`, got nothing; look at the copy with `snowlease quarantine` first, which shows it.",
  ],
  [
    "migrate",
    2,
    "CONFIG_INVALID: `snowlease migrate` expected plan [URL] | apply|status|finish [PLAN], got nothing; see `snowlease migrate --help`.",
  ],
  ["migrate paln", 2, "CONFIG_INVALID: Expected plan, apply, status or finish, got `paln` (string); name one."],
  [
    "migrate plan",
    2,
    "CONFIG_INVALID: Expected `--from` to be one of ip, westid-redis, westid-sql, uid-generator, leaf, cosid-redis, cosid-sql, got nothing; name the present assignment.",
  ],
  [
    "migrate plan --from ip",
    2,
    "CONFIG_INVALID: Expected a named registry, got none: the default would be sqlite:{home}/.local/state/snowlease/registry.db, a file that no other host or user sees; name the registry of your programs with `--registry URL`, SNOWLEASE_REGISTRY or `registry` in a config file (for that file: `--registry sqlite:{home}/.local/state/snowlease/registry.db`).",
  ],
  [
    "init --registry sqlite:r.db --layout nope",
    2,
    "CONFIG_INVALID: Expected `layout` to be a preset (westid, twitter, rollback, uid, uid-datacenter, sonyflake, discord, instagram, mastodon, safe53, scene) or a notation like `timestamp:41,worker:10,sequence:12@1490346283706/1`, got `nope` (string); correct --layout.",
  ],
  [
    "init --registry sqlite:r.db a-b",
    2,
    "CONFIG_INVALID: Expected `namespace` to match [a-z][a-z0-9_]{0,31}, such as `a_b`, got `a-b` (string); correct the argument.",
  ],
  [
    "verify",
    2,
    "CONFIG_INVALID: Expected a named registry, got none: the default would be sqlite:{home}/.local/state/snowlease/registry.db, a file that no other host or user sees; name the registry of your programs with `--registry URL`, SNOWLEASE_REGISTRY or `registry` in a config file (for that file: `--registry sqlite:{home}/.local/state/snowlease/registry.db`).",
  ],
  [
    "verify sqlite:none.db --yes",
    2,
    "CONFIG_INVALID: Expected a registry that exists, got sqlite:none.db, which does not; make it first with `snowlease init --registry sqlite:none.db`.",
  ],
  [
    "doctor extra",
    2,
    "CONFIG_INVALID: `snowlease doctor` expected no argument, got `extra` (string); see `snowlease doctor --help`.",
  ],
  [
    "token",
    2,
    "CONFIG_INVALID: `snowlease token` expected ROLE [NAMESPACES], got nothing; see `snowlease token --help`.",
  ],
  [
    "token root",
    2,
    "CONFIG_INVALID: Expected ROLE to be one of worker, read, admin, got `root` (string); name one of them.",
  ],
  [
    "completion",
    2,
    "CONFIG_INVALID: `snowlease completion` expected SHELL, got nothing; see `snowlease completion --help`.",
  ],
  [
    "completion powershell",
    2,
    "CONFIG_INVALID: Expected SHELL to be one of bash, zsh, fish, got `powershell` (string); name one of them.",
  ],
  [
    "top extra",
    2,
    "CONFIG_INVALID: `snowlease top` expected no argument, got `extra` (string); see `snowlease top --help`.",
  ],
  [
    "id --registry ./reg.db",
    2,
    "CONFIG_INVALID: Expected the registry URL to start with one of sqlite: memory: etcd: etcds: http: https: kubernetes: mysql: oracle: postgres: redis: rediss: redis+sentinel: redis+cluster: redis+unix: unix: zookeeper:, perhaps sqlite:./reg.db, got `./reg.db` (string); correct --registry.",
  ],
  [
    "id --registry localhost:5432/app",
    2,
    "CONFIG_INVALID: Expected the registry URL to start with one of sqlite: memory: etcd: etcds: http: https: kubernetes: mysql: oracle: postgres: redis: rediss: redis+sentinel: redis+cluster: redis+unix: unix: zookeeper:, perhaps postgres://localhost:5432/app, got `localhost:5432/app` (string); correct --registry.",
  ],
  [
    "exec --registry sqlite:r.db -- nosuchprogram",
    127,
    "NOT_FOUND: `nosuchprogram` could not be started: PATH has no program of this name; correct the name.",
  ],
  ["id --registry sqlite:.", 2, "CONFIG_INVALID: The registry file `{work}` is a folder; name a file."],
  [
    "id --registry sqlite:notes.txt",
    2,
    "CONFIG_INVALID: The registry file `{work}/notes.txt` is not a database (file is not a database); name another file.",
  ],
  ["audit .", 2, "CONFIG_INVALID: IDs cannot be read from `.` (string): it is a folder; name a file of IDs."],
  [
    "id --help --helpp",
    2,
    "CONFIG_INVALID: `snowlease id` expected known flags, got `--helpp` (string); did you mean `--help`? See `snowlease id --help`.",
  ],
  [
    "id --datacenter 3 --layout twitter --worker-id 900",
    2,
    "CONFIG_INVALID: Expected `workerId` to be an integer from 0 to 31, the number within the fixed fields (whose worker IDs are 96-127), got `900` (string); correct --worker-id.",
  ],
  [
    "explain --file ids.txt 5",
    2,
    "CONFIG_INVALID: Expected IDs either as arguments or with `--file`, got both (`5` (string) and `ids.txt` (string)); leave one out.",
  ],
  [
    "explain --file none.txt --registry sqlite:r.db",
    2,
    "CONFIG_INVALID: IDs cannot be read from `none.txt` (string): it does not exist; name a file of IDs.",
  ],
  [
    "daemon --registry sqlite:r.db --listen 127.0.0.1:99999",
    2,
    "CONFIG_INVALID: Expected `listen` to be a port from 0 to 65535, or HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070, got `127.0.0.1:99999` (string); correct --listen.",
  ],
  [
    "daemon --resp nowhere",
    2,
    "CONFIG_INVALID: Expected `resp` to be a port from 0 to 65535, HOST:PORT, such as 127.0.0.1:7071, or the path of a socket, with a `/` in it, got `nowhere` (string); correct --resp.",
  ],
  [
    "exec --claim-timeout soon -- true",
    2,
    "CONFIG_INVALID: Expected `claimTimeout` to be a time with its unit, such as 500ms, 30s, 2m or 1h, or in code and JSON a whole number of ms, from 0 to 2147483647 ms, got `soon` (string); correct --claim-timeout.",
  ],
  ["id --mode led", 2, "CONFIG_INVALID: Expected `mode` to be one of wall, lead, got `led` (string); correct --mode."],
  [
    "id --spread -1",
    2,
    "CONFIG_INVALID: Expected `spread` to be an integer from 0 to 2147483647, got `-1` (string); correct --spread.",
  ],
];

/** The words of a line, as a shell takes them: `""` is an empty one. */
const wordsOf = (line: string): string[] =>
  line.split(" ").map((word) => (word === '""' ? "" : word.replaceAll("'", "")));

describe("a mistake", () => {
  let registry: Buffer;
  beforeAll(() => {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-mistakes-"));
    const file = join(folder, "r.db");
    const { status } = spawnSync(process.execPath, [cliFile, "init", "--registry", `sqlite:${file}`], {
      timeout: 60_000,
    });
    expect(status).toBe(0);
    registry = readFileSync(file);
    rmSync(folder, { recursive: true });
  });

  test.each(mistakes)("snowlease %s", async (line, exitCode, answer) => {
    const sandbox = new Sandbox();
    writeFileSync(join(sandbox.work, "r.db"), registry);
    writeFileSync(
      join(sandbox.work, "notes.txt"),
      "not a database, but a text that is long enough to look like one\n".repeat(40),
    );
    writeFileSync(join(sandbox.work, "ids.txt"), "5\n");
    const { code, stdout, stderr } = await sandbox.run(wordsOf(line));
    expect([code, stdout]).toEqual([exitCode, ""]);
    // What comes before is where the worker ID is from.
    const told = stderr
      .trimEnd()
      .split("\n")
      .at(-1)
      ?.replaceAll(sandbox.work, "{work}")
      .replaceAll(join(sandbox.folder, "home"), "{home}");
    expect(told).toBe(`snowlease: ${answer}`);
  });

  test("is told in one sentence, with the value and with advice", () => {
    expect(mistakes.length).toBeGreaterThanOrEqual(100);
    for (const [, , answer] of mistakes) {
      expect(answer).toMatch(/^[A-Z_]+: \S.*[^.][.?]$/);
      expect(answer).toMatch(/;|did you mean|, so there is nothing to end/);
    }
  });
});
