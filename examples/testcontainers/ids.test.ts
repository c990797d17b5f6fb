// The integration test of a service whose worker IDs are leased from a Redis. The Redis runs in a container that is restarted, replaced on the
// same volume, and replaced without it, while a program of the service makes IDs. No ID comes twice, and the service is told of the loss.
//
//   npx tsx --test examples/testcontainers/ids.test.ts        where Docker runs on this machine
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { type InitOptions, isSnowleaseError, snowlease } from "snowlease";
import { expectNoDuplicates, type Holder, startHolder } from "snowlease/testing";
import { GenericContainer, getContainerRuntimeClient, type StartedTestContainer, Wait } from "testcontainers";

const image =
  process.env["REDIS_IMAGE"] ?? "redis:7.4@sha256:71da9275c5f3fcb97d0fa0c8c5b36cc995327265420f17a04bfd544f458059f7";

// The same port for all containers: else Docker gives each start another one. It is below those that a system gives to outgoing connections.
const port = 20_000 + Math.floor(Math.random() * 10_000);
// maxLag=0: no replica ever takes this Redis's place, so a quarantine has none to wait for.
const registry = `redis://127.0.0.1:${port}?maxLag=0`;
// The others make quarantines short: some seconds.
const orders: InitOptions = { registry, namespace: "orders", window: "1s", maxWindow: "2s", maxClockSkew: "5s" };
const volume = randomUUID();
const programs: Holder[] = [];
let redis: StartedTestContainer | undefined;

/** Starts a Redis on which each acknowledged write survives as long as its volume. Without `source`, the volume goes with the container. */
function startRedis(source?: string): Promise<StartedTestContainer> {
  return new GenericContainer(image)
    .withCommand(["redis-server", "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"])
    .withBindMounts(source === undefined ? [] : [{ source, target: "/data" }])
    .withExposedPorts({ container: 6379, host: port })
    .withHealthCheck({ test: ["CMD", "redis-cli", "-e", "ping"], interval: 200, retries: 100 })
    .withWaitStrategy(Wait.forHealthCheck())
    .start();
}

/** Starts a process of the service. */
async function startProgram(): Promise<Holder> {
  const program = await startHolder({ module: new URL("ids.mjs", import.meta.url), options: orders });
  programs.push(program);
  return program;
}

/** Waits until a program makes IDs again: after its restart, a Redis grants nothing for some seconds. */
async function recovered(program: Holder): Promise<void> {
  while ((await program.live(500)).made === 0);
}

before(async () => {
  redis = await startRedis(volume);
  // Once for each namespace. `new` is the word of an operator that it never existed: here the Redis itself is new.
  await snowlease.init({ ...orders, new: true });
});

after(async () => {
  for (const program of programs) await program.kill();
  await redis?.stop();
  const engine = await getContainerRuntimeClient();
  await engine.container.dockerode.getVolume(volume).remove();
});

test("restarted with its volume: a program that runs goes on, another one starts", async () => {
  const running = await startProgram();
  const [meanwhile] = await Promise.all([running.live(3000), redis?.restart()]);
  assert.ok(meanwhile.made > 0);
  await recovered(running);
  assert.equal((await (await startProgram()).make(1000)).made, 1000);
});

test("replaced on the same volume, while a program is killed", async () => {
  const killed = await startProgram();
  assert.ok((await killed.live(500)).made > 0);
  await Promise.all([killed.kill(), redis?.stop()]);
  redis = await startRedis(volume);
  assert.equal((await (await startProgram()).make(1000)).made, 1000);
});

test("replaced without its volume: the service is told, and gets no worker ID", async () => {
  const running = await startProgram();
  // It makes IDs until its window ends. It may: no other program gets this window.
  const life = running.live(8000);
  await redis?.stop();
  redis = await startRedis();
  const { made, refusals, reason } = await life;
  console.log(`made ${made} IDs while the Redis was lost; refused: ${JSON.stringify(refusals)}; ${reason}`);
  assert.ok(made > 0 && Object.keys(refusals).length > 0);
  await assert.rejects(snowlease(orders), (error: unknown) => {
    console.log((error as Error).message);
    return isSnowleaseError(error, "QUARANTINE");
  });
});

test("no ID came twice", () => {
  const ids = programs.flatMap((program) => program.ids);
  console.log(`${ids.length} IDs of ${programs.length} programs`);
  expectNoDuplicates(ids);
});
