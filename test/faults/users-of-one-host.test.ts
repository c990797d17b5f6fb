// Users of one host who name no registry: each has a registry file of their own, and the host's address gives all of them one worker ID.

import { spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, test } from "vitest";
import { cliFile, type CliProcess, Sandbox, until } from "../support/cli.ts";

const library = new URL("../../dist/index.js", import.meta.url).href;
const program = fileURLToPath(new URL("../support/host-user.mjs", import.meta.url));

/** Whether this process may start others as another user, who can read this repository. Else all have one user, and a home each. */
const canBeOthers =
  process.getuid?.() === 0 && spawnSync("test", ["-r", program], { uid: 12_001, gid: 12_001 }).status === 0;

type Options = Readonly<Record<string, unknown>>;

let namespace: string;
let count: number;
beforeEach(() => {
  // Other runs on this host must not be seen.
  namespace = `t${process.pid}_${Date.now().toString(36)}`;
  count = 0;
});

/** A user of this host, with a home. */
class User {
  readonly uid: number | undefined = canBeOthers ? 12_001 + count : undefined;
  readonly #home = new Sandbox();
  readonly #files: string[] = [];

  constructor() {
    count++;
    const { uid } = this;
    if (uid === undefined) return;
    for (const name of [".", "home", "work", "tmp"]) chownSync(join(this.#home.folder, name), uid, uid);
  }

  get registryFile(): string {
    return join(this.#home.folder, "home/.local/state/snowlease/registry.db");
  }

  /** All IDs that processes of this user made. */
  get ids(): string[] {
    return this.#files.flatMap((file) => (existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []));
  }

  /** Starts a program that makes IDs until its stdin ends. */
  start(options: Options = {}): CliProcess {
    const file = join(this.#home.work, `ids-${this.#files.length}`);
    this.#files.push(file);
    const given = { namespace, ip: "172.17.0.2", claimTimeout: 0, ...options };
    return this.#spawn([program], { OPTIONS: JSON.stringify(given), IDS: file, NODE_NO_WARNINGS: "1" });
  }

  /** Starts the command line. */
  command(...args: readonly string[]): CliProcess {
    return this.#spawn([cliFile, ...args], { SNOWLEASE_NAMESPACE: namespace, SNOWLEASE_IP: "172.17.0.2" });
  }

  /** Starts a program, given as its text. */
  script(text: string): CliProcess {
    const env = { SNOWLEASE_NAMESPACE: namespace, SNOWLEASE_IP: "172.17.0.2", NODE_NO_WARNINGS: "1" };
    const file = join(this.#home.work, "script.mjs");
    writeFileSync(file, text);
    return this.#spawn([file], env);
  }

  #spawn(args: readonly string[], env: Readonly<Record<string, string>>): CliProcess {
    const { uid } = this;
    const user = uid === undefined ? {} : { uid, gid: uid };
    return this.#home.started(spawn(process.execPath, args, { ...this.#home.surroundings(env), ...user }));
  }
}

/** Starts a program, and waits until it has made IDs. */
async function holding(user: User, options?: Options): Promise<CliProcess> {
  const before = user.ids.length;
  const started = user.start(options);
  await started.line();
  await until(() => user.ids.length > before);
  return started;
}

function expectNoIdTwice(...users: readonly User[]): void {
  const ids = users.flatMap((user) => user.ids);
  expect(ids.length).toBeGreaterThan(0);
  expect(ids.length - new Set(ids).size).toBe(0);
}

describe.runIf(process.platform === "linux")("two users of one host, and no registry", () => {
  test.each<[string, Options]>([
    ["the host's address", {}],
    ["the option `workerId`", { workerId: 7 }],
    ["an ordinal", { ordinal: true, host: "orders-7" }],
    ["a property", { properties: { "snowlease.workerId": 7 } }],
  ])("with a worker ID from %s, the second is told who holds it", async (_, options) => {
    const [one, two] = [new User(), new User()];
    const first = await holding(one, options);
    const second = two.start(options);
    second.closeStdin();
    const { code, stderr } = await second.ended;
    first.closeStdin();
    await first.ended;
    expectNoIdTwice(one, two);
    expect({ code, ids: two.ids }).toEqual({ code: 1, ids: [] });
    const uid = one.uid ?? process.getuid?.();
    expect(stderr).toContain(`is held on this host by pid ${first.pid} of the user with ID ${uid}, since `);
    expect(stderr).toContain(`in another registry file than \`${two.registryFile}\``);
    expect(stderr).toContain("SNOWLEASE_REGISTRY=sqlite:/var/");
  });

  test("a second user who waits begins when the first has ended", async () => {
    const [one, two] = [new User(), new User()];
    const first = await holding(one);
    const second = two.start({ claimTimeout: 120_000 });
    await until(() => existsSync(two.registryFile));
    first.closeStdin();
    await second.line();
    await until(() => two.ids.length > 0);
    second.closeStdin();
    expect(await second.ended).toMatchObject({ code: 0, stderr: "" });
    expectNoIdTwice(one, two);
  });

  test("so are `id`, `assign` and `exec`, and their lease keeps others out", async () => {
    const [one, two] = [new User(), new User()];
    const first = one.command("assign");
    await first.line();
    for (const [name = "", ...rest] of [["id"], ["assign", "--once"], ["exec", "--", "echo", "ran"]]) {
      const command = two.command(name, "--claim-timeout", "0", ...rest);
      command.closeStdin();
      expect(await command.ended).toMatchObject({
        code: 3,
        stdout: "",
        stderr: expect.stringContaining(
          `WORKER_ID_HELD: Worker 2 of namespace \`${namespace}\` is held on this host by pid ${first.pid} `,
        ) as string,
      });
    }
    first.closeStdin();
    expect(await first.ended).toMatchObject({ code: 0 });
    const last = two.command("id", "--claim-timeout", "0");
    last.closeStdin();
    expect(await last.ended).toMatchObject({ code: 0 });
  });

  // With ticks of a second, both make IDs in one tick if the second one begins where the first one was killed.
  test.each(["westid", "timestamp:31,worker:10,sequence:20@1700000000000/1000"])(
    "the first is killed: the second begins at once, with no ID twice (%s)",
    async (layout) => {
      const [one, two] = [new User(), new User()];
      for (let i = 0; i < 4; i++) {
        const [dies, follows] = i % 2 === 0 ? [one, two] : [two, one];
        const first = await holding(dies, { layout, claimTimeout: 60_000 });
        const next = follows.start({ layout, claimTimeout: 60_000 });
        await until(() => existsSync(follows.registryFile));
        const before = follows.ids.length;
        await first.kill();
        await next.line();
        await until(() => follows.ids.length > before);
        await next.kill();
      }
      expectNoIdTwice(one, two);
    },
  );

  test("the first is stopped: the second stays out, and a process of the first user's file does as ever", async () => {
    const [one, two] = [new User(), new User()];
    const first = await holding(one);
    first.signal("SIGSTOP");
    // Longer than the window of the first, 2 s.
    const second = two.start({ claimTimeout: 5000 });
    const refused = await second.ended;
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(`is held on this host by pid ${first.pid} `);
    const third = await holding(one, { claimTimeout: 60_000 });
    first.signal("SIGCONT");
    expect((await first.ended).stderr).toContain("LEASE_LOST");
    const fourth = two.start();
    expect((await fourth.ended).stderr).toContain(`is held on this host by pid ${third.pid} `);
    third.closeStdin();
    await third.ended;
    expectNoIdTwice(one, two);
  });

  test("of 20 at once, at most one makes IDs at a time", async () => {
    const users = Array.from({ length: 20 }, () => new User());
    const started = users.map((user) => user.start({ claimTimeout: 60_000 }));
    await until(() => users.some((user) => user.ids.length > 0));
    const [winner] = users.flatMap((user, i) => (user.ids.length > 0 ? [i] : []));
    started[winner ?? 0]?.closeStdin();
    await until(() => users.filter((user) => user.ids.length > 0).length > 1);
    for (const one of started) await one.kill();
    expectNoIdTwice(...users);
  });
});

describe("two processes of one user", () => {
  test("the registry alone decides", async () => {
    const one = new User();
    const first = await holding(one);
    const second = one.start();
    const { code, stderr } = await second.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(new RegExp(`is held by \\S+ \\(172\\.17\\.0\\.2\\), pid ${first.pid}, since `));
    await first.kill();
    const third = await holding(one, { claimTimeout: 60_000 });
    third.closeStdin();
    expect(await third.ended).toMatchObject({ code: 0, stderr: "" });
    expectNoIdTwice(one);
  });
});

describe.runIf(process.platform === "linux")("the mark of a holder", () => {
  const start = `
    import cluster from "node:cluster";
    import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
    import { snowlease } from ${JSON.stringify(library)};
    const isMarked = () => readFileSync("/proc/net/unix", "latin1").includes("snowlease/" + process.env.SNOWLEASE_NAMESPACE + "/");
  `;

  test("keeps no process alive", async () => {
    const ended = await new User().script(`${start}; await snowlease(); console.log(isMarked());`).ended;
    expect(ended).toMatchObject({ code: 0, stdout: "true\n" });
  });

  test("is a cluster worker's own: its parent may be busy, and has nothing left of it in the end", async () => {
    const { ended } = new User().script(`${start}
      if (cluster.isPrimary) {
        const worker = cluster.fork();
        while (!existsSync("marked")) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
        console.log(readFileSync("marked", "utf8"));
        worker.once("exit", () => { console.log(isMarked()); process.exit(); });
        worker.process.kill("SIGKILL");
      } else {
        await snowlease();
        writeFileSync("marking", String(isMarked()));
        renameSync("marking", "marked");
      }
    `);
    expect(await ended).toMatchObject({ code: 0, stdout: "true\nfalse\n" });
  });
});
