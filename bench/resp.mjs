// What a request over the Redis protocol costs a daemon, beside INCR of a redis-server: redis-benchmark asks, each server is a process of its own, and
// its CPU time is what counts. A bare server shows what of it is Node's: it reads chunks, counts the requests in them by their length, and writes a constant.

import { execFile, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { median } from "./bursts.mjs";
import { cpuOf, DaemonProcess, prefer } from "./daemon-process.mjs";
import { interleave } from "./interleave.mjs";
import { freePort } from "./ports.mjs";
import { figure, printLine, printTable } from "./table.mjs";

const connections = 16;
/** Requests that a connection sends before it reads an answer -> requests of a round: about a second of CPU time, which is counted by 10 ms. */
const requests = { 1: 100_000, 16: 800_000, 128: 2_000_000 };
const depths = Object.keys(requests).map(Number);
const namespace = "orders";
const token = "bench-token";

export const groups = {
  requests: {
    cases: {
      ...Object.fromEntries(depths.map((depth) => [`redis-server, ${depth}`, () => redisCase(depth)])),
      ...Object.fromEntries(depths.map((depth) => [`bare Node, ${depth}`, () => bareCase(depth)])),
      ...Object.fromEntries(depths.map((depth) => [`daemon, ${depth}`, () => daemonCase(depth)])),
      ...Object.fromEntries(depths.map((depth) => [`daemon with tokens, ${depth}`, () => daemonCase(depth, true)])),
    },
  },
};

async function redisCase(depth) {
  const port = await freePort();
  const place = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const child = spawn("redis-server", [...place, "--loglevel", "warning"], { stdio: "ignore" });
  return loadChild(child, port, depth, "INCR");
}

/** A server that is a process of ours. */
function loadChild(child, port, depth, command) {
  prefer(child.pid);
  const exit = once(child, "exit");
  process.on("exit", () => child.kill("SIGKILL"));
  return load(
    port,
    depth,
    command,
    [],
    () => cpuOf(child.pid),
    async () => {
      child.kill("SIGKILL");
      await exit;
    },
  );
}

/** Not for tokens, nor for requests that come in two parts. */
const bareServer = `
  const [length, answer] = [${request().length}, "$19\\r\\n1278549019894743040\\r\\n"];
  require("node:net").createServer({ noDelay: true }, (socket) => {
    let rest = 0;
    socket.on("error", () => undefined).on("data", (chunk) => {
      rest += chunk.length;
      socket.write(answer.repeat(rest / length), "latin1");
      rest %= length;
    });
  }).listen(+process.argv[1], "127.0.0.1");`;

async function bareCase(depth) {
  const port = await freePort();
  const child = spawn(process.execPath, ["-e", bareServer, String(port)], {
    env: { ...process.env, NODE_OPTIONS: "--max-semi-space-size=8" },
  });
  return loadChild(child, port, depth, "GET");
}

/** As redis-benchmark sends it. */
function request() {
  return `*2\r\n$3\r\nGET\r\n$${namespace.length}\r\n${namespace}\r\n`;
}

async function daemonCase(depth, hasTokens = false) {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  const tokens = join(folder, "tokens");
  writeFileSync(tokens, `${createHash("sha256").update(token).digest("hex")} worker ${namespace}\n`, { mode: 0o600 });
  const port = await freePort();
  const listen = ["--listen", "127.0.0.1:0", "--resp", `127.0.0.1:${port}`];
  const daemon = await DaemonProcess.start([
    "--registry",
    `sqlite:${join(folder, "registry.db")}`,
    ...listen,
    ...(hasTokens ? ["--tokens", tokens] : []),
  ]);
  const login = hasTokens ? ["-a", token] : [];
  return load(
    port,
    depth,
    "GET",
    login,
    () => daemon.usage().cpu,
    async () => {
      await daemon.end("SIGTERM");
      rmSync(folder, { recursive: true });
    },
  );
}

/** A round answers the server's CPU time for a request, us, and how many of them it answered a second. */
function load(port, depth, command, login, cpu, close) {
  const place = ["-p", String(port), "-c", String(connections), "-P", String(depth), ...login];
  const ask = async (count) => {
    const { stdout } = await promisify(execFile)("redis-benchmark", [
      ...place,
      "-q",
      "-n",
      String(count),
      command,
      namespace,
    ]);
    const rate = /([\d.]+) requests per second/.exec(stdout)?.[1];
    if (rate === undefined || /error/i.test(stdout)) throw new Error(`redis-benchmark said: ${stdout}`);
    return Number(rate);
  };
  return {
    async warm() {
      // redis-benchmark goes on for ever where the server does not listen yet.
      while (!(await answers(port)));
      await ask(requests[depth]);
    },
    async round() {
      const before = cpu();
      const rate = await ask(requests[depth]);
      return { rate, cpu: ((cpu() - before) * 1e6) / requests[depth] };
    },
    close,
  };
}

async function answers(port) {
  const socket = connect(port, "127.0.0.1");
  try {
    return await once(socket, "connect").then(
      () => true,
      () => false,
    );
  } finally {
    socket.destroy();
  }
}

/** Prints what a request costs at each depth of the pipeline. */
export async function run() {
  if (spawnSync("redis-benchmark", ["--version"]).error) {
    printLine(
      "\nThe Redis protocol: skipped, redis-server is not installed (apt-get install --no-install-recommends redis-server).",
    );
    return;
  }
  const results = await interleave(import.meta.url, "requests", Object.keys(groups.requests.cases), {
    processes: 2,
    rounds: 4,
  });
  const rows = [...results].map(([name, { rounds }]) => {
    const yardstick = results.get(`redis-server, ${name.split(", ")[1]}`).rounds;
    return [
      name,
      figure(median(rounds.map(({ rate }) => rate))),
      figure(median(rounds.map(({ cpu }) => cpu))),
      figure(median(rounds.map(({ cpu }, i) => cpu / yardstick[i].cpu))),
    ];
  });
  const title = `GET of a daemon and INCR of a redis-server, ${connections} connections, by requests that each sends ahead`;
  printTable(title, ["", "a second", "server CPU us", "of redis-server"], rows);
}
