import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { tokenFile } from "../../src/serving/tokens.ts";
import { makeApi } from "../support/api.ts";

describe("the first claim in a namespace", () => {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-first-claim-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });
  const tokens = (): ReturnType<typeof tokenFile> => {
    const lines = ["w worker", "a admin"].map((line) =>
      line.replace(/^\S+/, (token) => createHash("sha256").update(token).digest("hex")),
    );
    writeFileSync(join(folder, "tokens"), lines.join("\n"), { mode: 0o600 });
    return tokenFile(join(folder, "tokens"), { info() {}, warn() {}, error() {} });
  };

  test.each([
    ["another layout", { layout: "twitter" }, /differs from this daemon's layout timestamp:/],
    ["another maxWindow", { limits: { maxWindow: 1_000_000_000 } }, /differs from this daemon's maxWindow 120000 ms/],
    ["another maxClockSkew", { limits: { maxClockSkew: 0 } }, /differs from this daemon's maxClockSkew 10000 ms/],
  ])("a worker's token fixes nothing of a new namespace: %s", async (_, asked, message) => {
    const api = makeApi({ tokens: tokens() });
    const claim = (token: string): ReturnType<typeof api.call> =>
      api.call("POST", "/v1/orders/leases", { now: api.clock.now(), ...asked }, bearer(token));
    const { status, body } = await claim("w");
    expect([status, body.code]).toEqual([403, "FORBIDDEN"]);
    expect(body.detail).toMatch(message);
    expect(await api.registry.describe("orders")).toBeUndefined();
    expect((await claim("a")).status).toBe(201);
    expect((await claim("w")).status).toBe(201);
  });

  test("a worker's token creates a namespace as the daemon is set to, whether it says so or not", async () => {
    const limits = { maxWindow: 90_000 };
    const api = makeApi({ tokens: tokens(), limits });
    const own = [{}, { layout: "westid" }, { layout: layouts.westid.fingerprint, limits: { maxClockSkew: 10_000 } }];
    for (const [i, asked] of [...own, { limits }].entries()) {
      const path = `/v1/n${i}/leases`;
      expect((await api.call("POST", path, { now: api.clock.now(), ...asked }, bearer("w"))).status).toBe(201);
      expect(await api.registry.describe(`n${i}`)).toMatchObject({ layout: layouts.westid.fingerprint, ...limits });
    }
  });

  test("without tokens a claim creates a namespace as it asks", async () => {
    const api = makeApi();
    const asked = { now: api.clock.now(), layout: "twitter", limits: { maxWindow: 30_000 }, windowMs: 10_000 };
    expect((await api.call("POST", "/v1/orders/leases", asked)).status).toBe(201);
    expect(await api.registry.describe("orders")).toMatchObject({ maxWindow: 30_000 });
  });
});
