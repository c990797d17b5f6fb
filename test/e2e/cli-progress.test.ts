import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import { startDaemon } from "../../src/daemon.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { Sandbox, until } from "../support/cli.ts";
import { Terminal } from "../support/terminal.ts";

/** A daemon that answers nothing about namespaces before it may. */
async function silentDaemon(): Promise<{ readonly url: string; readonly speak: () => void }> {
  const registry = memoryRegistry();
  await registry.init({ namespace: "default", layout: defaultLayout.fingerprint });
  let speak = (): void => undefined;
  const allowed = new Promise<void>((resolve) => (speak = resolve));
  const held: Registry = {
    ...registry,
    describe: (namespace) => allowed.then(() => registry.describe(namespace)),
    workers: (request) => allowed.then(() => registry.workers(request)),
    claim: (request) => allowed.then(() => registry.claim(request)),
  };
  const listen = { host: "127.0.0.1", port: 0 };
  const log = pino({ level: "silent" });
  const daemon = await startDaemon({ registry: held, listen, operationTimeout: 600_000, log });
  onTestFinished(() => daemon.close());
  onTestFinished(speak);
  return { url: daemon.url ?? "", speak };
}

const patient = ["--operation-timeout", "600s"];
/** Erases the line that a terminal shows at present. */
const erased = "\r\u001b[K";

describe("a registry that is slow to answer", () => {
  test.each([
    ["workers", (url: string): string => `waiting for ${url}`, "No worker ID."],
    ["id", (url: string): string => `waiting for a worker ID from ${url}`, "\n"],
  ])("%s says on a terminal what it waits for, and clears that line", async (command, waitingFor, printed) => {
    const { url, speak } = await silentDaemon();
    const terminal = new Terminal(new Sandbox(), [command, "--registry", url, ...patient], { columns: 120 });
    const text = waitingFor(url);
    await until(() => terminal.output.split(text).length > 3);
    expect(terminal.output).toMatch(/, \d+ s\r/);
    speak();
    const { code } = await terminal.ended;
    expect(code).toBe(0);
    const last = terminal.output.lastIndexOf(text);
    const after = terminal.output.slice(last).split(erased);
    expect(after).toHaveLength(2);
    expect(after[0]).not.toContain("\n");
    expect(after[1]).toContain(printed);
  });

  test("in a log, a line says it each 10 s", async () => {
    const { url, speak } = await silentDaemon();
    const asked = new Sandbox().start(["workers", "--registry", url, ...patient]);
    await until(() => asked.stderr.includes("\n"));
    speak();
    const { code, stderr } = await asked.ended;
    expect(code).toBe(0);
    expect(stderr).toMatch(new RegExp(`^snowlease: waiting for ${url}, \\d+ s\\n$`));
  });

  test("an error stands on a line of its own", async () => {
    const { url } = await silentDaemon();
    const terminal = new Terminal(new Sandbox(), ["workers", "--registry", url, "--operation-timeout", "3s"]);
    const { code } = await terminal.ended;
    expect(code).toBe(5);
    expect(terminal.output).toContain(`waiting for ${url}, 1 s`);
    expect(terminal.output).toMatch(/\u001b\[Ksnowlease: REGISTRY_UNAVAILABLE: /);
  });
});
