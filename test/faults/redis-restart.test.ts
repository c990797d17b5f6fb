import { defaultLayout } from "../../src/id/layout.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { onServerOf } from "../support/store-server.ts";
import { newNamespace, subjectIn } from "../support/subject.ts";

onServerOf("redis", { missing: redisMissing, start: () => RedisServer.start() }, { restarts: true }, (server) => {
  restartMatrix("redis", async () => {
    const namespace = newNamespace();
    // A restarted server begins a quarantine: the shortest possible one with the windows and clocks of these tests.
    const url = `${server().url()}?maxLag=0`;
    const registry = await openRedis(url);
    await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint, maxWindow: 5000 });
    return { ...subjectIn(namespace, server(), registry), url };
  });
});
