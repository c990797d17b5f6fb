import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { type Tokens, tokenFile } from "../../src/serving/tokens.ts";
import { SignIns } from "../../src/http/dashboard/sign-ins.ts";
import { fakeClock } from "../../src/testing.ts";
import { makeDashboard } from "../support/dashboard.ts";
import { beginQuarantine } from "../support/quarantine.ts";

const folder = mkdtempSync(join(tmpdir(), "snowlease-dashboard-"));
afterAll(() => rmSync(folder, { recursive: true }));

const silent = { info() {}, warn() {}, error() {} };

/** Tokens of lines `TOKEN ROLE [GLOB]`; `set` replaces them. */
function tokensOf(...lines: string[]): Tokens & { set(...lines: string[]): void } {
  const path = join(mkdtempSync(join(folder, "t-")), "tokens");
  const write = (lines: readonly string[]): void =>
    writeFileSync(
      path,
      lines.map((line) => line.replace(/^\S+/, (t) => createHash("sha256").update(t).digest("hex"))).join("\n"),
      {
        mode: 0o600,
      },
    );
  write(lines);
  const tokens = tokenFile(path, silent);
  return {
    ...tokens,
    set(...lines) {
      write(lines);
      tokens.reload();
    },
  };
}

/** Start tags, as a browser would see them. */
const tagsOf = (text: string): string[] =>
  Array.from(text.matchAll(/<([a-z][a-z0-9-]*)\b/gi), ([, name = ""]) => name.toLowerCase());
const cells = (text: string): string[] =>
  Array.from(text.matchAll(/aria-label="(\d+, [^"]*|\d+ to \d+: [^"]*)"/g), ([, label = ""]) => label);

describe("the page", () => {
  test("shows every worker ID of the pool as a labelled cell, and who holds what", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    await claim("orders", { host: "web-1", ip: "192.0.2.7", instance: "blue" });
    const lost = await claim("orders", { host: "web-2" });
    await registry.forceRelease({ namespace: "orders", workerId: lost.workerId, force: true });
    await registry.pin("orders", 1023, "kept for Java");
    await clock.advance(7 * 60_000 - 6 * 60_000 - 23_000);
    const { status, headers, text } = await send("GET", "/?namespace=orders");
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    const labels = cells(text).map((label) => label.replace(/[\u2068\u2069]/g, ""));
    expect(labels.length).toBe(1024);
    expect(labels[0]).toBe("0, live, web-1 (192.0.2.7)");
    expect(labels[1]).toBe("1, resting, last web-2 (192.0.2.1)");
    expect(labels[2]).toBe("2, never used");
    expect(labels[1023]).toBe("1023, pinned, pinned: kept for Java");
    expect(text).toMatch(/web-1<\/bdi>.*192\.0\.2\.7.*pid 4001.*blue.*37 s.*0:23/s);
    expect(text.replace(/<[^>]*>/g, "")).toContain("3 of 1,024 worker IDs taken");
    expect(text.replace(/<[^>]*>/g, "").replace(/\s+/g, " ")).toContain("web-1 192.0.2.7");
  });

  test("is made of files of ours alone, and lets nothing inline run", async () => {
    const { send, claim } = makeDashboard();
    await claim("orders");
    const { text, headers } = await send("GET", "/?namespace=orders&worker=0");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|data:|https?:|\*/);
    expect(text).not.toMatch(/ (?:style|on\w+)=|javascript:|<style|https?:\/\/(?!HOST:PORT|localhost --namespace)/i);
    const paths = Array.from(text.matchAll(/(?:src|href)="(\/dashboard\.[^"]*)"/g), ([, path = ""]) => path);
    expect(new Set(paths.map((path) => path.replace(/\?.*/, "")))).toEqual(
      new Set(readdirSync(new URL("../../web/", import.meta.url)).map((name) => `/${name}`)),
    );
    for (const path of paths) {
      const asset = await send("GET", path);
      expect(asset.status).toBe(200);
      expect(asset.text).toBe(readFileSync(new URL(`../../web${path.replace(/\?.*/, "")}`, import.meta.url), "utf8"));
      expect(asset.headers.get("x-content-type-options")).toBe("nosniff");
    }
    expect(readFileSync(new URL("../../web/dashboard.css", import.meta.url), "utf8")).not.toMatch(/url\(|@import/);
  });

  test("takes what strangers wrote for text, wherever it stands", async () => {
    const evil = `"><script>x</script><img src=x onerror=x>'&`;
    const { send, claim, registry } = makeDashboard();
    const plain = makeDashboard();
    const pages = [
      "/?namespace=orders",
      "/?namespace=orders&worker=0",
      "/?namespace=orders&worker=1",
      `/?namespace=orders&id=${layouts.westid.compose({ timestamp: 1_700_000_000_000, workerId: 0, sequence: 0 })}`,
    ];
    await claim("orders", { host: evil, ip: `${evil}2`, instance: `${evil}3` });
    await registry.pin("orders", 0, evil);
    await plain.claim("orders", { host: "a", ip: "b", instance: "c" });
    await plain.registry.pin("orders", 0, "d");
    for (const page of pages) {
      const { status, text } = await send("GET", page);
      expect(status).toBe(200);
      expect(tagsOf(text)).toEqual(tagsOf((await plain.send("GET", page)).text));
      if (page !== pages[2]) expect(text).toContain("&quot;&gt;&lt;script&gt;");
    }
    for (const query of [
      `namespace=${encodeURIComponent(evil)}`,
      `namespace=orders&id=${encodeURIComponent(evil)}`,
      `namespace=orders&worker=${encodeURIComponent(evil)}`,
    ]) {
      const { text } = await send("GET", `/?${query}`);
      expect(tagsOf(text).filter((name) => name === "script")).toEqual(["script"]);
      expect(text).not.toContain("<img src=x");
    }
  });

  test("takes an ID of another layout apart, without a holder", async () => {
    const { send, claim, clock } = makeDashboard();
    await claim("orders", { host: "maker-9" });
    const id = layouts.twitter.compose({ timestamp: clock.now(), workerId: 33, sequence: 5 });
    const { text } = await send("GET", `/?namespace=orders&id=${id}&layout=twitter`);
    const explained = text.slice(text.indexOf('id="explained"'), text.indexOf('id="columns"'));
    expect(explained).toMatch(/<dd>33 \(datacenter 1, worker 1\)<\/dd>/);
    expect(explained).toMatch(/<b>datacenter<\/b>\s*<span class="sub">5 bits, 1<\/span>\s*<code>00001<\/code>/);
    expect(explained).toContain("another layout");
    expect(explained).not.toContain("maker-9");
    expect(text).toMatch(/<option selected>twitter<\/option>/);
    // A layout that wraps needs a time.
    expect((await send("GET", "/?namespace=orders&id=5&layout=scene")).text).toContain("Made about when");
    expect((await send("GET", "/?namespace=orders&id=5&layout=nothing")).text).toContain(
      "Expected <code>layout</code> to be one of",
    );
  });

  test("explains an ID, and says so when it is none", async () => {
    const { send, claim, clock } = makeDashboard();
    await claim("orders", { host: "maker-9" });
    const id = layouts.westid.compose({ timestamp: clock.now(), workerId: 0, sequence: 5 });
    const { text } = await send("GET", `/?namespace=orders&id=${id}`);
    expect(text).toContain('id="explained"');
    expect(text.slice(text.indexOf('id="explained"'))).toMatch(/maker-9.*fence 1/s);
    const bits = Array.from(
      text.matchAll(/<b>(\w+)<\/b>\s*<span class="sub">(\d+) bits, (\d+)<\/span>\s*<code>([01]+)<\/code>/g),
      ([, name, count, value = "", digits = ""]) => [
        name,
        Number(count),
        digits.length,
        BigInt(`0b${digits}`) === BigInt(value),
      ],
    );
    expect(bits).toEqual([
      ["timestamp", 41, 41, true],
      ["worker", 10, 10, true],
      ["sequence", 12, 12, true],
    ]);
    const joined = Array.from(text.matchAll(/<code>([01]{10,})<\/code>/g), ([, digits = ""]) => digits).join("");
    expect(BigInt(`0b${joined}`)).toBe(id);
    expect(text).toMatch(/<dt>Layout<\/dt>\s*<dd>westid<\/dd>/);
    const nobodys = layouts.westid.compose({ timestamp: clock.now(), workerId: 77, sequence: 5 });
    expect((await send("GET", `/?namespace=orders&id=${nobodys}`)).text).toContain(
      "No recorded holder: <bdi>worker 77 was never claimed",
    );
    const none = await send("GET", "/?namespace=orders&id=%21%21");
    expect(none.status).toBe(200);
    expect(none.text).toContain("CONFIG_INVALID");
  });

  test("shows the history of a worker ID, and refuses one that the layout does not have", async () => {
    const { send, claim, clock } = makeDashboard();
    await claim("orders", { host: "first" });
    await clock.advance(121_000);
    await claim("orders", { host: "second" }, { workerId: 0 });
    const { text } = await send("GET", "/?namespace=orders&worker=0");
    expect(text.slice(text.indexOf('id="detail"'))).toMatch(
      /second.*51 s after the one before.*live.*first.*never released/s,
    );
    // Two windows of 70 s, and a gap of 51 s.
    const drawn = Array.from(text.matchAll(/<rect class="(\w+)" x="(\d+)" width="(\d+)"/g), ([, look, x, width]) => [
      look,
      Number(x),
      Number(width),
    ]);
    expect(drawn).toEqual([
      ["passed", 0, 365],
      ["live", 634, 365],
    ]);
    expect((await send("GET", "/?namespace=orders&worker=1024")).text).toContain("CONFIG_INVALID");
    expect((await send("GET", "/?namespace=orders&worker=9")).text).toContain("never used");
    expect((await send("GET", "/?namespace=orders&worker=x")).status).toBe(400);
    expect((await send("GET", "/?namespace=NO")).status).toBe(400);
  });

  test("lists holders as they are asked for, in pages, and leads to all of them", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    for (const [i, host] of ["web-10", "web-9", "db-1", "Web-2"].entries()) {
      await claim("orders", { host, ip: `192.0.2.${9 - i}`, instance: i === 2 ? "blue" : "" });
      await clock.advance(1000);
    }
    await claim("orders", { host: "late" }, { window: 3000 });
    await registry.pin("orders", 700, "kept for Java");
    await clock.advance(2200);
    const listed = async (query: string): Promise<string[]> => {
      const { text } = await send("GET", `/?namespace=orders&${query}`);
      const list = text.slice(text.indexOf('id="holders"'), text.indexOf('class="side"'));
      return Array.from(list.matchAll(/<tr id="w(\d+)"/g), ([, id = ""]) => id);
    };
    expect(await listed("")).toEqual(["0", "1", "2", "3", "4"]);
    expect(await listed("find=WEB")).toEqual(["0", "1", "3"]);
    expect(await listed("find=192.0.2.7")).toEqual(["2"]);
    expect(await listed("find=blue")).toEqual(["2"]);
    expect(await listed("find=3")).toEqual(["3"]);
    expect(await listed("find=%3Cscript%3E")).toEqual([]);
    expect(await listed("sort=host")).toEqual(["2", "4", "3", "1", "0"]);
    expect(await listed("sort=address")).toEqual(["4", "3", "2", "1", "0"]);
    expect(await listed("sort=ends")).toEqual(["4", "0", "1", "2", "3"]);
    expect(await listed("sort=newest&find=web")).toEqual(["3", "1", "0"]);
    expect(await listed("show=overdue")).toEqual(["4"]);
    expect(await listed("show=pinned&find=java")).toEqual(["700"]);
    expect(await listed("show=all")).toEqual(["0", "1", "2", "3", "4", "700"]);
    expect(await listed("show=none&sort=none&skip=99999")).toEqual(["4"]);
    const { text } = await send("GET", "/?namespace=orders&find=web%26x&sort=host&worker=1");
    expect(text).toContain("Nothing here matches.");
    expect(text).toContain('value="web&amp;x"');
    // What is opened leaves the list as it is.
    expect(text).toContain('<a href="/?namespace=orders&amp;find=web%26x&amp;sort=host">Close</a>');
    expect((await send("GET", `/?namespace=orders&find=${"x".repeat(300)}`)).text).toContain(
      `value="${"x".repeat(200)}"`,
    );
    expect((await send("GET", "/?namespace=orders&skip=-1")).status).toBe(400);
  });

  test("has, of a large pool, 512 cells and 20 holders, however many there are, and leads to all of them", async () => {
    const { send, claim, registry } = makeDashboard();
    for (let i = 0; i < 1100; i++) await claim("big", { host: `h-${i}` }, { layout: "uid" });
    const listed: number[] = [];
    let path = "/?namespace=big";
    for (; path !== "";) {
      const { text } = await send("GET", path);
      expect(cells(text).length).toBe(512);
      const rows = Array.from(text.matchAll(/<tr id="w(\d+)"/g), ([, id]) => Number(id));
      expect(rows.length).toBeLessThanOrEqual(20);
      listed.push(...rows);
      path = /href="(\/\?[^"]*skip=\d+)#holders">Next/.exec(text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    }
    expect(listed).toEqual(Array.from({ length: 1000 }, (_, i) => i));
    const { text } = await send("GET", "/?namespace=big&from=1000");
    expect(text).toContain("Worker IDs 1000 to 8191");
    expect(cells(text)[0]).toBe("0 to 8191: 1,100 live, 7,092 never used");
    const behind: number[] = [];
    for (path = "/?namespace=big&from=1000"; path !== "";) {
      const { text } = await send("GET", path);
      const part = text.slice(text.indexOf('id="workers"'), text.indexOf('id="columns"'));
      behind.push(...Array.from(part.matchAll(/aria-label="Worker (\d+)"/g), ([, id]) => Number(id)));
      path = /href="(\/\?[^"]*from=\d+)#workers">Next/.exec(part)?.[1]?.replaceAll("&amp;", "&") ?? "";
    }
    expect(behind).toEqual(Array.from({ length: 100 }, (_, i) => 1000 + i));
    await registry.init({ namespace: "other", layout: layouts.safe53.fingerprint });
    expect(cells((await send("GET", "/?namespace=other")).text).length).toBe(32);
  });

  test("leads to the other namespaces, and opens the only one there is", async () => {
    const { send, claim } = makeDashboard();
    expect((await send("GET", "/")).text).toContain("does not exist yet");
    await claim("orders");
    expect((await send("GET", "/")).text).toContain('id="grid"');
    await claim("bills");
    const { text } = await send("GET", "/?namespace=orders");
    expect(text).toContain('href="/?namespace=bills"');
    // One that another daemon serves is not known here before somebody names it.
    expect(text).toContain("Any other of the registry can be named here.");
    expect(text).toMatch(/href="\/\?namespace=orders"\s+aria-current="page"/);
  });

  test("keeps what was last seen while the registry does not answer, and says so", async () => {
    let broken = false;
    const down = (): never => {
      throw new SnowleaseError("REGISTRY_UNAVAILABLE", "The store is <gone>.");
    };
    const { send, claim, clock } = makeDashboard({
      change: (registry) => ({
        ...registry,
        ping: () =>
          broken ? Promise.reject(new SnowleaseError("REGISTRY_UNAVAILABLE", "The store is <gone>.")) : registry.ping(),
        worker: (...args) => (broken ? down() : registry.worker(...args)),
      }),
    });
    await claim("orders", { host: "web-1" });
    await send("GET", "/?namespace=orders");
    broken = true;
    await clock.advance(1000);
    const { status, text } = await send("GET", "/?namespace=orders");
    expect(status).toBe(503);
    expect(text).toContain("The store is &lt;gone&gt;.");
    expect(text).toContain("web-1</bdi>");
    expect((await send("GET", "/?namespace=orders&worker=0")).text).toContain("No answer");
    expect((await send("GET", "/?namespace=bills")).status).toBe(503);
    broken = false;
    await clock.advance(1000);
    expect((await send("GET", "/?namespace=orders")).status).toBe(200);
  });

  /** The line above everything else: what it comes to, and the facts, each with its kind. */
  function healthIn(text: string): { readonly verdict: string; readonly facts: readonly string[] } {
    const section = /<section id="health".*?<\/section>/s.exec(text)?.[0] ?? "";
    const plain = (part: string): string =>
      part
        .replace(/<[^>]*>/g, " ")
        .replace(/\s+/g, " ")
        .trim();
    const facts = Array.from(
      section.matchAll(/<div class="(\w+)">(.*?)<\/div>/gs),
      ([, kind, fact = ""]) => `${kind} ${plain(fact)}`,
    );
    return { verdict: plain(/<b>.*?<\/b>/s.exec(section)?.[0] ?? ""), facts };
  }

  test("begins with how the namespace is", async () => {
    let broken = false;
    const { send, claim, clock } = makeDashboard({
      change: (memory) => ({
        ...memory,
        ping: () =>
          broken ? Promise.reject(new SnowleaseError("REGISTRY_UNAVAILABLE", "The store is gone.")) : memory.ping(),
      }),
    });
    const look = async (): Promise<ReturnType<typeof healthIn>> => {
      await clock.advance(1000);
      return healthIn((await send("GET", "/?namespace=small")).text);
    };
    expect(healthIn((await send("GET", "/?namespace=none")).text)).toEqual({ verdict: "", facts: [] });
    for (let i = 0; i < 31; i++) await claim("small", { host: `h-${i}` }, { layout: "safe53", window: 120_000 });
    const well = ["ok Registry answers in 1 ms", "ok Quarantine none"];
    expect(await look()).toEqual({
      verdict: "All is well",
      facts: [...well, "ok Pool 1 left", "ok Refused claims none in 15 min", "ok Overdue renewals none"],
    });

    await claim("small", { host: "late" }, { layout: "safe53", window: 40_000 });
    await claim("small", {}, { layout: "safe53" }).catch(() => undefined);
    expect(await look()).toEqual({
      verdict: "Something is wrong",
      facts: [...well, "fail Pool full", "fail Refused claims 1 in 15 min", "ok Overdue renewals none"],
    });

    await clock.advance(28_000);
    const { text } = await send("GET", "/?namespace=small");
    expect(healthIn(text).facts).toContain("warn Overdue renewals 1 of 32");
    expect((await send("GET", "/?namespace=small&sort=ends")).text).toMatch(
      /<tr id="w31"\s+class="overdue">.*?late<\/bdi>.*?<b class="overdue">overdue<\/b>/s,
    );
    const { text: overdue } = await send("GET", "/?namespace=small&show=overdue");
    expect(overdue.match(/<tr id="w\d+"[^>]*class="overdue"/g)).toHaveLength(1);
    expect(cells(text)[31]).toMatch(/^31, live, overdue, /);

    broken = true;
    const seen = new Date(clock.now()).toISOString().slice(11, 19);
    const gone = await look();
    expect(gone.facts[0]).toBe(`fail Registry does not answer, last seen at ${seen}Z`);
    expect((await send("GET", "/?namespace=small")).text).toContain('class="stale"');
    broken = false;
    await clock.advance(1000);
    expect((await send("GET", "/?namespace=small")).text).not.toContain('class="stale"');
  });

  test("tells of a quarantine, and of the claims that it refuses, in one box", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    await claim("orders");
    await beginQuarantine(registry, "orders", clock.now);
    await claim("orders").catch(() => undefined);
    await clock.advance(1000);
    const { text } = await send("GET", "/?namespace=orders");
    const { verdict, facts } = healthIn(text);
    expect(verdict).toBe("Something is wrong");
    expect(facts[1]).toMatch(/^fail Quarantine ends in \d+:\d\d$/);
    expect(facts[3]).toMatch(/^fail Refused claims [1-9]\d* in 15 min$/);
    expect(text.match(/<p class="notice/g)).toHaveLength(1);
    expect(text).toContain("<b>QUARANTINE</b>");
  });

  test("tells of a quarantine while it lasts", async () => {
    const { send, claim, clock, registry } = makeDashboard({
      change: (memory) => ({
        ...memory,
        renew: () =>
          Promise.reject(new SnowleaseError("QUARANTINE", "It may have forgotten windows.", { retryAfterMs: 30_000 })),
      }),
    });
    const { workerId, fence, token } = await claim("orders");
    await registry
      .renew({ namespace: "orders", workerId, fence, token, clock: clock.now(), window: 1000 })
      .catch(() => undefined);
    expect((await send("GET", "/?namespace=orders")).text).toContain(
      "<b>QUARANTINE</b> It may have forgotten windows.",
    );
    await clock.advance(31_000);
    expect((await send("GET", "/?namespace=orders")).text).not.toContain("<b>QUARANTINE</b>");
  });

  test("tells of a quarantine that an operator ends", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    await claim("orders");
    await beginQuarantine(registry, "orders", clock.now);
    const { era = "", quarantineEnd = 0 } = (await registry.describe("orders")) ?? {};
    await clock.advance(1000);
    const alarm = async (): Promise<string> => {
      const { text } = await send("GET", "/?namespace=orders");
      return /<b>QUARANTINE<\/b>.*?(?=<\/p>)/s.exec(text)?.[0] ?? "";
    };
    const at = (time: number): string => `${new Date(time).toISOString().slice(0, 19).replace("T", " ")}Z`;
    const lasting = await alarm();
    expect(lasting).toContain("The registry may have forgotten windows that it granted");
    expect(lasting).toContain(`It grants again at ${at(quarantineEnd)}.`);
    const { quarantineUntil = 0 } = (await registry.endQuarantine?.({ namespace: "orders", era })) ?? {};
    expect(quarantineUntil).toBeLessThan(quarantineEnd);
    await clock.advance(1000);
    expect(await alarm()).toContain(`An operator ended the quarantine. It grants again at ${at(quarantineUntil)}.`);
    await clock.advance(quarantineUntil - clock.now());
    expect(await alarm()).toBe("");
  });

  test("shows the commands that change what is looked at, with what they do", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    await claim("orders");
    await registry.pin("orders", 5, "kept");
    const at = "--registry http://localhost --namespace orders";
    const commands = async (query: string): Promise<string[]> => {
      const { text } = await send("GET", `/?namespace=orders&${query}`);
      const lists = text.match(/<ul class="commands">.*?<\/ul>/gs)?.join("") ?? "";
      expect(lists.match(/<span class="sub">[A-Z][^<]*\.<\/span>/g)?.length).toBe(lists.match(/<code>/g)?.length);
      return Array.from(lists.matchAll(/<code>(.*?)<\/code>/gs), ([, command = ""]) => command);
    };
    const pin = (workerId: number): string => `snowlease pin ${workerId} ${at} --reason &quot;WHY&quot;`;
    expect(await commands("")).toEqual([]);
    expect(await commands("worker=0")).toEqual([`snowlease release 0 ${at} --force`, pin(0)]);
    expect(await commands("worker=5")).toEqual([`snowlease unpin 5 ${at}`]);
    expect(await commands("worker=6")).toEqual([pin(6)]);
    await beginQuarantine(registry, "orders", clock.now);
    await clock.advance(1000);
    const { era = "" } = (await registry.describe("orders")) ?? {};
    expect(await commands("")).toEqual([`snowlease quarantine end ${at} --era ${era} --i-know`]);
    const { quarantineUntil = 0 } = (await registry.endQuarantine?.({ namespace: "orders", era })) ?? {};
    await clock.advance(1000);
    expect(quarantineUntil).toBeGreaterThan(clock.now());
    expect(await commands("")).toEqual([]);
  });

  test("draws the last hour, minute by minute, also of times when nobody looked", async () => {
    const { send, claim, clock, registry, sample } = makeDashboard();
    const hour = async (): Promise<Record<string, { readonly text: string; readonly path: string }>> => {
      const { text } = await send("GET", "/?namespace=orders");
      const part = /<section[^>]*id="hour".*?<\/section>/s.exec(text)?.[0] ?? "";
      const figures = part.matchAll(
        /<figcaption>(.*?) <span class="sub">(.*?)<\/span><\/figcaption>.*?<path d="(.*?)">/gs,
      );
      return Object.fromEntries(Array.from(figures, ([, name, text = "", path = ""]) => [name, { text, path }]));
    };
    const { workerId, fence, token } = await claim("orders");
    expect(await hour()).toMatchObject({
      Pool: { text: "0.1 % taken, at most 0.1 %" },
      Claims: { text: "1, at most 1 a minute", path: "M59 24v-24h.8v24z" },
      Renewals: { text: "none", path: "" },
      "Refused claims": { text: "none", path: "" },
      Clock: { text: "0 ms off, at most 0 ms" },
    });
    await clock.advance(10 * 60_000);
    for (let i = 0; i < 102; i++) await claim("orders", { host: `h-${i}` });
    await claim("orders", {}, { layout: "safe53" }).catch(() => undefined);
    await claim("orders", {}, { workerId: 5000 }).catch(() => undefined);
    await claim("orders", {}, { layout: "safe53" }).catch(() => undefined);
    // Nobody looks.
    await sample();
    await clock.advance(20 * 60_000);
    const renewed = await registry.renew({
      namespace: "orders",
      workerId,
      fence,
      token,
      clock: clock.now(),
      window: 60_000,
    });
    expect(renewed.outcome).toBe("renewed");
    const { Pool, Claims, Renewals, "Refused claims": refused } = await hour();
    expect(Pool?.text).toMatch(/^0\.1 % taken, at most 10\.0 %$/);
    expect(Pool?.path).toMatch(/^M29 24v-0\.5h1v0\.5zM39 24v-2\.4h1v2\.4zM59 24v/);
    expect(Claims).toEqual({ text: "103, at most 102 a minute", path: "M29 24v-1h.8v1zM39 24v-24h.8v24z" });
    expect(Renewals).toEqual({ text: "1, at most 1 a minute", path: "M59 24v-24h.8v24z" });
    expect(refused?.text).toBe("3, at most 3 a minute: 2 LAYOUT_MISMATCH, 1 CONFIG_INVALID");
    await clock.advance(60 * 60_000);
    expect((await hour())["Claims"]).toEqual({ text: "none", path: "" });
  });

  test("tells why a lease was lost", async () => {
    const { send, claim, journal } = makeDashboard();
    await claim("orders");
    const facts = { event: "lost", namespace: "orders", workerId: 0 };
    const reasons = ["taken", "released", "forgotten", "cloned", undefined];
    for (const [fence, reason] of reasons.entries()) journal.warn({ ...facts, fence, reason }, "lost");
    journal.error({ ...facts, fence: 9, own: true, reason: "forgotten" }, "The lease is lost: look for its IDs.");
    const { text } = await send("GET", "/?namespace=orders");
    const told = Array.from(
      text.matchAll(/<b class="lost">lost<\/b>[^<]*<span class="sub">([^<]*)</g),
      ([, why]) => why,
    );
    expect(told).toEqual([
      "The lease is lost: look for its IDs.",
      "Another holder has the worker ID.",
      "A copy of the holder renewed the lease.",
      "The registry went back in time.",
      "The claim was ended.",
      "Another holder has the worker ID.",
    ]);
  });

  test("opens from a link on another site, where the API does not", async () => {
    const { send, claim } = makeDashboard();
    await claim("orders");
    const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    expect((await send("GET", "/", { headers: link })).status).toBe(200);
    expect((await send("GET", "/v1/orders/workers", { headers: link })).status).toBe(403);
    for (const headers of [
      { ...link, "sec-fetch-dest": "iframe" },
      { ...link, "sec-fetch-mode": "no-cors" },
      { ...link, host: "evil.example" },
      { ...link, origin: "https://evil.example" },
    ]) {
      expect((await send("GET", "/", { headers })).status).toBe(403);
    }
    expect((await send("POST", "/sign-out", { headers: link })).status).toBe(403);
  });
});

describe("with tokens", () => {
  const form = (fields: Record<string, string>): { headers: Record<string, string>; body: string } => ({
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      origin: "http://localhost",
      "sec-fetch-site": "same-origin",
    },
    body: String(new URLSearchParams(fields)),
  });

  async function signedIn(bench: ReturnType<typeof makeDashboard>, token: string): Promise<Record<string, string>> {
    const { status, headers } = await bench.send("POST", "/sign-in", form({ token, next: "/" }));
    expect(status).toBe(303);
    return { cookie: (headers.get("set-cookie") ?? "").replace(/;.*/, "") };
  }

  test("asks strangers to sign in, and tells them nothing", async () => {
    const { send, claim } = makeDashboard({ tokens: tokensOf("r read") });
    await claim("orders", { host: "secret-host" });
    const { status, text } = await send("GET", "/?namespace=orders&worker=0");
    expect(status).toBe(401);
    expect(text).toContain('<form method="post" action="/sign-in">');
    expect(text).toContain('value="/?namespace=orders&amp;worker=0"');
    expect(text).not.toMatch(/secret-host|id="grid"/);
    expect(text).not.toContain("another came");
  });

  test("lets in who shows one, with a cookie that no script and no other site has, and that is not the token", async () => {
    const bench = makeDashboard({ tokens: tokensOf("r3ader read") });
    await bench.claim("orders");
    const { status, headers } = await bench.send(
      "POST",
      "/sign-in",
      form({ token: " r3ader ", next: "/?namespace=orders" }),
    );
    expect(status).toBe(303);
    expect(headers.get("location")).toBe("/?namespace=orders");
    const cookie = headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/^snowlease=[0-9a-f]{32}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
    expect(cookie).not.toContain("r3ader");
    const own = { cookie: `other=1; ${cookie.replace(/;.*/, "")}` };
    const { text } = await bench.send("GET", "/?namespace=orders", { headers: own });
    expect(text).toContain('id="grid"');
    expect(text).not.toContain("r3ader");
    expect(
      (await bench.send("GET", "/?namespace=orders", { headers: { authorization: "Bearer r3ader" } })).status,
    ).toBe(200);
  });

  test("is signed in for looking at pages and events alone", async () => {
    const bench = makeDashboard({ tokens: tokensOf("adm1n admin") });
    await bench.claim("orders");
    const headers = await signedIn(bench, "adm1n");
    expect((await bench.send("HEAD", "/v1/orders/events", { headers })).status).toBe(200);
    for (const path of ["/v1/orders/workers", "/metrics", "/v1/orders/ids/1"]) {
      expect((await bench.send("GET", path, { headers })).status).toBe(401);
    }
    const json = { ...headers, "content-type": "application/json" };
    expect((await bench.send("POST", "/v1/orders/workers/0/release", { headers: json, body: "{}" })).status).toBe(401);
    expect(
      (await bench.send("PUT", "/v1/orders/workers/0/pin", { headers: json, body: '{"reason":"x"}' })).status,
    ).toBe(401);
  });

  test("shows a namespace to those only who may read it", async () => {
    const bench = makeDashboard({
      tokens: tokensOf("o read orders", "w worker", "x nothing-yet".replace("nothing-yet", "read x*")),
    });
    await bench.claim("orders");
    await bench.claim("bills");
    const headers = await signedIn(bench, "o");
    const { text } = await bench.send("GET", "/", { headers });
    expect(text).toMatch(/href="\/\?namespace=orders"\s+aria-current="page"/);
    expect(text).not.toContain("bills");
    const refused = await bench.send("GET", "/?namespace=bills", { headers });
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("role `read`");
    expect((await bench.send("HEAD", "/v1/bills/events", { headers })).status).toBe(403);
    expect((await bench.send("GET", "/", { headers: await signedIn(bench, "w") })).status).toBe(403);
  });

  test("refuses another token, another site's form, and what is no form", async () => {
    const { send } = makeDashboard({ tokens: tokensOf("r read") });
    const wrong = await send("POST", "/sign-in", form({ token: "nobody" }));
    expect(wrong.status).toBe(401);
    expect(wrong.headers.get("set-cookie")).toBeNull();
    expect(wrong.text).not.toContain("nobody");
    const { headers, body } = form({ token: "r" });
    for (const changed of [
      { origin: "http://evil.example" },
      { origin: "null" },
      { "sec-fetch-site": "cross-site" },
      { host: "evil.example" },
    ]) {
      const { status, headers: got } = await send("POST", "/sign-in", { headers: { ...headers, ...changed }, body });
      expect({ changed, status, cookie: got.get("set-cookie") }).toEqual({ changed, status: 403, cookie: null });
    }
    expect(
      (await send("POST", "/sign-in", { headers: { ...headers, "content-type": "text/plain" }, body })).status,
    ).toBe(415);
    expect((await send("POST", "/sign-in", { headers, body: `token=${"x".repeat(70_000)}` })).status).toBe(413);
  });

  test("goes on nowhere else than to a page of its own", async () => {
    const { send } = makeDashboard({ tokens: tokensOf("r read") });
    for (const next of [
      "//evil.example",
      "https://evil.example",
      "/\\evil.example",
      "/?x\r\nset-cookie: a=b",
      "javascript:x",
      "/sign-out",
    ]) {
      expect((await send("POST", "/sign-in", form({ token: "r", next }))).headers.get("location")).toBe("/");
    }
  });

  test("ends with the token, with signing out, and after twelve hours", async () => {
    const tokens = tokensOf("r read", "s read");
    const bench = makeDashboard({ tokens });
    await bench.claim("orders");
    const [one, two, three] = [await signedIn(bench, "r"), await signedIn(bench, "s"), await signedIn(bench, "s")];
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await bench.send("GET", "/", { headers })).status;
    expect([await status(one), await status(two), await status(three)]).toEqual([200, 200, 200]);
    tokens.set("s read");
    expect([await status(one), await status(two)]).toEqual([401, 200]);
    const out = await bench.send("POST", "/sign-out", { headers: { ...two, origin: "http://localhost" } });
    expect(out.headers.get("set-cookie")).toMatch(/^snowlease=; .*Max-Age=0/);
    expect([await status(two), await status(three)]).toEqual([401, 200]);
    await bench.clock.advance(12 * 3_600_000);
    expect(await status(three)).toBe(401);
  });

  test("keeps at most a thousand signed in, ends the oldest of the token that has the most, and keeps daemons of one host apart", () => {
    const sessions = new SignIns(fakeClock());
    const at = (url: string, headers: Record<string, string> = {}): Request =>
      new Request(url, { headers: { host: new URL(url).host, ...headers } });
    const first = sessions.start(at("https://h:7070/"), "t");
    expect(first).toMatch(
      /^__Host-snowlease7070=[0-9a-f]{32}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure$/,
    );
    const cookie = first.replace(/;.*/, "");
    expect(sessions.authorizationOf(at("https://h:7070/", { cookie }))).toBe("Bearer t");
    expect(sessions.authorizationOf(at("https://h:7071/", { cookie }))).toBeNull();
    const of = (token: string): string => sessions.start(at("https://h:7070/"), token).replace(/;.*/, "");
    const others = Array.from({ length: 1000 }, () => of("u"));
    const stays = (cookie = ""): boolean => sessions.authorizationOf(at("https://h:7070/", { cookie })) !== null;
    expect([cookie, others[0], others[1], others[999]].map(stays)).toEqual([true, false, true, true]);
  });
});
