import { describe } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { bootStorm } from "../support/boot-storm.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { namespace, subjectOn } from "../support/subject.ts";

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "on a real server", () => {
  bootStorm("redis", "ioredis", async () => {
    const server = await RedisServer.start();
    const registry = await openRedis(server.url());
    await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
    return subjectOn(server, registry);
  });
});
