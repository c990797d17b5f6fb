import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliProcess, Sandbox } from "../support/cli.ts";
import { startExample } from "../support/examples.ts";
import { ask, isProgram, ServerProcess, startOnFreePort, whyMissing } from "../support/servers.ts";

const natsMissing = whyMissing("nats-server", () => isProgram("nats-server"), "nats-server");

/** A nats-server with JetStream. */
class NatsServer {
  readonly process: ServerProcess = new ServerProcess("nats");
  readonly port: number;

  constructor(port: number) {
    this.port = port;
  }

  async start(): Promise<void> {
    const args = ["-js", "-sd", this.process.folder, "-a", "127.0.0.1", "-p", String(this.port)];
    await this.process.start("nats-server", args, async () => (await ask(this.port, "PING\r\n")).startsWith("INFO"));
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }
}

describe.skipIf(natsMissing !== undefined)(natsMissing ?? "nats-registry", () => {
  let server: NatsServer;
  beforeAll(async () => {
    server = await startOnFreePort((port) => new NatsServer(port));
  });
  afterAll(() => server.process.remove());

  test("prove.ts finds that it keeps the contract", async () => {
    const { code, stdout, stderr } = await startExample(new Sandbox(), "nats-registry/prove.ts", [server.url]).ended;
    expect({ code, stdout, stderr }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/\n\{ passed: \d\d+, skipped: 8, failed: 0 \}\n$/) as string,
      stderr: "",
    });
  });

  test("services go on while the server is killed and started again, and make no ID twice", async () => {
    const sandbox = new Sandbox();
    const start = (): CliProcess => startExample(sandbox, "nats-registry/service.ts", [server.url]);
    const services = [start(), start(), start()];
    for (const service of services) await service.line();
    await server.process.kill();
    for (const service of services) await service.line();
    await server.start();
    const [killed] = services;
    killed?.signal("SIGKILL");
    await killed?.ended;
    services.push(start());
    await services.at(-1)?.line();
    await sleep(200);
    for (const service of services.slice(1)) service.signal("SIGTERM");
    const ended = await Promise.all(services.map((service) => service.ended));
    expect(ended.slice(1).map(({ code }) => code)).toEqual([0, 0, 0]);
    const ids = ended.flatMap(({ stdout }) => stdout.split("\n").slice(0, -1));
    expect(ids.length).toBeGreaterThan(100);
    expect(new Set(ids).size).toBe(ids.length);
  });
});
