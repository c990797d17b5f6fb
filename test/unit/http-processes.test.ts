import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { beforeEach, expect, onTestFinished, test } from "vitest";

const built = (module: string): string => pathToFileURL(join(import.meta.dirname, "../..", module)).href;

let path: string;
beforeEach(() => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  path = join(folder, "s");
});

/** A process of its own that listens on the socket when it is told to. It answers every request with its pid. */
class Starter {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  static async ready(): Promise<Starter> {
    const starter = new Starter();
    expect(await starter.#line()).toBe("ready");
    return starter;
  }

  private constructor() {
    const script = `
      import { listenOnSocket } from ${JSON.stringify(built("dist/serving/listen.js"))};
      import { makeServer } from ${JSON.stringify(built("dist/http/server/server.js"))};
      process.stdin.on("data", async () => {
        const server = makeServer({ answer: () => false, fetch: () => new Response(String(process.pid)) });
        try {
          await listenOnSocket(server, ${JSON.stringify(path)});
          console.log("listening");
        } catch (error) {
          console.log(error.code + " " + error.message);
        }
      });
      console.log("ready");`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#process = child;
    this.#lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    onTestFinished(() => this.kill());
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  async #line(): Promise<string | undefined> {
    const { value } = (await this.#lines.next()) as IteratorResult<string, undefined>;
    return value;
  }

  /** What became of it: `listening`, or why not. */
  start(): Promise<string | undefined> {
    this.#process.stdin?.write("go");
    return this.#line();
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }
}

async function ask(): Promise<string> {
  const sent = request({ socketPath: path, agent: false }).end();
  const [response] = (await once(sent, "response")) as [AsyncIterable<Buffer>];
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return text;
}

test.each([
  ["", () => undefined],
  [
    " and the lock of one that was killed while it started",
    () => {
      writeFileSync(`${path}.lock`, "");
      utimesSync(`${path}.lock`, 0, 0);
    },
  ],
])("of processes that start at once on the socket%s that a killed one left, one listens", async (_, prepare) => {
  let starters = await Promise.all(Array.from({ length: 4 }, () => Starter.ready()));
  for (let round = 0; round < 5; round++) {
    prepare();
    const outcomes = await Promise.all(starters.map((starter) => starter.start()));
    const refused = `CONFIG_INVALID Cannot listen on ${path}: another daemon listens there; stop it, or choose another path.`;
    expect(outcomes.filter((outcome) => outcome !== "listening")).toEqual(Array(3).fill(refused));
    const winner = starters[outcomes.indexOf("listening")];
    expect(await ask()).toBe(String(winner?.pid));
    expect(readdirSync(join(path, ".."))).toEqual(["s"]);

    await winner?.kill();
    starters = [...starters.filter((starter) => starter !== winner), await Starter.ready()];
  }
});

test("as many connections as the kernel allows wait until they are taken", async () => {
  const starter = await Starter.ready();
  await starter.start();
  starter.signal("SIGSTOP");
  const allowed = Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8"));
  const sockets = Array.from({ length: Math.min(allowed, 1500) }, () => connect({ path }));
  onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
});
