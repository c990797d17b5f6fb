import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { systemClock } from "../../src/clock.ts";
import { startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { Sandbox, until } from "../support/cli.ts";

/** A daemon whose claims are answered when most of their window has passed. */
async function slowDaemon(delay: number): Promise<{ readonly url: string; readonly renewals: () => number }> {
  const registry = memoryRegistry();
  let renewals = 0;
  const slow: Registry = {
    ...registry,
    async claim(request) {
      const answer = await registry.claim(request);
      await systemClock.sleep(delay);
      return answer;
    },
    async renew(request) {
      const answer = await registry.renew(request);
      renewals++;
      return answer;
    },
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({
    registry: slow,
    listen,
    operationTimeout: 30_000,
    log: pino({ level: "silent" }),
  });
  onTestFinished(() => daemon.close());
  return { url: daemon.url ?? "", renewals: () => renewals };
}

const terms = ["--window", "9s", "--operation-timeout", "30s"];

test("`assign` holds a worker ID whose claim took most of the window", async () => {
  const { url, renewals } = await slowDaemon(8000);
  const holder = new Sandbox().start(["assign", "--registry", url, ...terms]);
  expect(JSON.parse(await holder.line())).toMatchObject({ workerId: 0 });
  const before = renewals();
  await until(() => renewals() > before + 2);
  expect(holder.isOver).toBe(false);
  holder.closeStdin();
  expect(await holder.ended).toMatchObject({ code: 0, stderr: "" });
});
