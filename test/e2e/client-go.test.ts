import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { until } from "../support/cli.ts";
import { testBorrowers } from "../support/client-borrowers.ts";
import { type HolderPrograms, testHolders } from "../support/client-holders.ts";
import { ClientSandbox } from "../support/client-sandbox.ts";
import { expectAudited } from "../support/examples.ts";
import { go, goClient, goPrograms, hasGo } from "../support/go/go.ts";
import { freePort } from "../support/servers.ts";

const readme = readFileSync(join(goClient, "README.md"), "utf8");
const shown = [...readme.matchAll(/^```go\n(.*?)^```$/gms)].map(([, code = ""]) => code);
let programs: string;
let sandbox: ClientSandbox;

describe.skipIf(!hasGo("gcc"))("the Go client", { timeout: 300_000 }, () => {
  beforeAll(() => {
    programs = goPrograms();
  }, 300_000);
  beforeEach(() => {
    sandbox = new ClientSandbox();
  });

  test("is formatted, vetted, and needs no other module", () => {
    const format = join(go(goClient, "env", "GOROOT").trim(), "bin/gofmt");
    const folders = [".", "../../test/support/go", "../../bench/clients/go", "../../prove/clients/go"];
    const formatted = spawnSync(format, ["-l", ...folders], { cwd: goClient, encoding: "utf8" });
    expect(formatted).toMatchObject({ status: 0, stdout: "", stderr: "" });
    go(goClient, "vet", "./...");
    expect(go(goClient, "list", "-m", "all").trim().split("\n")).toHaveLength(1);
  });

  test("passes its own tests under the race detector", () => {
    const said = go(goClient, "test", "-race", "-count=1", "-v", "./...");
    expect(said).toContain("--- PASS: TestIDVectors");
    // But the scripts with layouts that wrap.
    expect(said).not.toMatch(/^--- SKIP/m);
  });

  test("does what the first lines of its README show", async () => {
    const { url } = await sandbox.startDaemon();
    const folder = join(sandbox.work, "first");
    mkdirSync(folder);
    const [imported = "", ...lines] = (shown[0] ?? "").replace("http://127.0.0.1:7070", url).split("\n\n");
    const body = lines.join("\n\n").replaceAll("return err", "panic(err)");
    const main = `func main() {\nctx := context.Background()\n${body}\nfmt.Println(id, text)\n}`;
    writeFileSync(join(folder, "main.go"), `package main\n\nimport ("context"; "fmt")\n\n${imported}\n\n${main}\n`);
    writeFileSync(
      join(folder, "go.mod"),
      `module first\n\ngo 1.21\n\nrequire snowlease.io/snowlease v0.1.0\n\nreplace snowlease.io/snowlease => ${goClient}\n`,
    );
    expect(go(folder, "run", ".")).toMatch(/^\d{19} [0-9A-Za-z]{11}\n$/);
    expect((await sandbox.workers("orders")).map(({ clean }) => clean)).toEqual([true]);
  });

  const holders = (): HolderPrograms => ({
    sandbox,
    ids: (count, msBetween = 0) => [join(programs, "ids"), String(count), String(msBetween)],
    crew: [join(programs, "crew"), "8", "5000"],
    crewIds: 8 * 5000,
    terminated: 0,
  });
  testHolders(holders);
  testBorrowers(holders);

  test("reaches a daemon by a socket", async () => {
    const path = join(sandbox.work, "daemon.sock");
    const daemon = await sandbox.startDaemon(0, "--socket", path);
    const ended = await sandbox.started(
      spawn(join(programs, "ids"), ["5", "0"], sandbox.surroundings({ SNOWLEASE_REGISTRY: `unix:${path}` })),
    ).ended;
    expect(ended).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^(\d{19}\n){5}$/) as string });
    await daemon.end("SIGKILL");
  });

  test("the example of its README answers requests, 503 while it has no ID, and gives its worker ID back when it stops", async () => {
    const source = readFileSync(join(goClient, "examples/orders/main.go"), "utf8");
    const squeezed = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
    for (const block of shown.slice(1)) expect(squeezed(source)).toContain(squeezed(block));

    const daemon = await sandbox.startDaemon();
    const address = `127.0.0.1:${await freePort()}`;
    const surroundings = sandbox.surroundings({ SNOWLEASE_REGISTRY: daemon.url, ADDRESS: address });
    const service = sandbox.started(spawn(join(programs, "orders"), surroundings));
    const order = (): Promise<Response> => fetch(`http://${address}/orders`, { method: "POST" });
    await until(() =>
      fetch(`http://${address}/`).then(
        () => true,
        () => service.isOver,
      ),
    );
    const made = async (): Promise<string> => ((await (await order()).json()) as { id: string }).id;
    const ids = (
      await Promise.all(Array.from({ length: 8 }, () => Promise.all(Array.from({ length: 25 }, made))))
    ).flat();
    service.signal("SIGTERM");
    expect(await service.ended).toMatchObject({ code: 0, stderr: "" });
    expect(ids).toHaveLength(200);
    expect((await sandbox.workers("orders")).map(({ clean }) => clean)).toEqual([true]);
    await expectAudited(sandbox, daemon.url, ids, "orders");

    await daemon.end("SIGKILL");
    const again = sandbox.started(spawn(join(programs, "orders"), surroundings));
    await until(() =>
      fetch(`http://${address}/`).then(
        () => true,
        () => again.isOver,
      ),
    );
    const refused = await order();
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(await refused.text()).toBe("REGISTRY_UNAVAILABLE\n");
    again.signal("SIGTERM");
    expect((await again.ended).code).toBe(0);
  });
});
