import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimRequest, Grant, Registry, Renewal, RenewRequest } from "../../src/rule/registry.ts";
import { storedToken } from "../../src/rule/token.ts";
import { ApiProxy } from "../support/api-proxy.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";

const limits = { maxWindow: 5000, maxClockSkew: 1000 };

/*
 * Kubernetes writes one object at a time. Each test holds a request up at the moment in which the era of the namespace and a record of it
 * could miss each other.
 */
describe.skipIf(kubernetesMissing !== undefined)(
  kubernetesMissing ?? "an era that begins",
  { timeout: 120_000 },
  () => {
    let server: Kubernetes;
    beforeAll(async () => {
      server = await Kubernetes.start();
    }, 1_200_000);
    afterAll(() => server.remove());

    /** A namespace with a holder of worker 0, a client of its own, and another client behind a proxy. */
    async function prepared(namespace: string): Promise<{
      readonly direct: Registry;
      readonly slow: Registry;
      readonly proxy: ApiProxy;
      readonly request: ClaimRequest;
      readonly grant: Grant;
    }> {
      const proxy = await ApiProxy.start(server);
      const direct = await openKubernetes(server.url());
      const slow = await openKubernetes(server.url(proxy.port), 20_000);
      onTestFinished(async () => {
        await Promise.all([direct.close(), slow.close()]);
        await proxy.stop();
      });
      await direct.init({ namespace, layout: defaultLayout.fingerprint, ...limits });
      const request = claimRequest({ namespace, pool: { first: 0, last: 0 } });
      return { direct, slow, proxy, request, grant: await granted(direct, request) };
    }

    /** The holder of worker 0 proves that the store forgot renewals: a quarantine begins. */
    async function beginEra(registry: Registry, request: ClaimRequest, grant: Grant): Promise<void> {
      const parts = (grant.receipt ?? "").split(".");
      parts[6] = "5";
      const renewal = registry.renew({
        ...keyOf(request, grant),
        clock: Date.now(),
        window: 2000,
        nextTurn: crypto.randomUUID().replaceAll("-", ""),
        receipt: parts.join("."),
      });
      await expect(renewal).rejects.toMatchObject({ code: "QUARANTINE" });
    }

    /** Of a holder of worker 1 that the store forgot: it never had the record. */
    function forgottenRenewal(namespace: string, { receipt: known = "" }: Grant): RenewRequest {
      const [, id = "", era = ""] = known.split(".");
      const key = { namespace, token: "f".repeat(32), fence: 1, workerId: 1 };
      const receipt = `1.${id}.${era}.1.1.${storedToken(key.token)}.3.${Date.now() + 2000}.5000.1000`;
      const nextTurn = crypto.randomUUID().replaceAll("-", "");
      return { ...key, clock: Date.now(), window: 2000, nextTurn, receipt };
    }

    const other = (namespace: string): ClaimRequest =>
      claimRequest({ namespace, workerId: 1, holder: { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" } });

    test.each([
      ["the record is on its way", "race_write", "POST ", "before"],
      ["the record is stored and its answer is on its way", "race_answer", "POST ", "after"],
    ] as const)("while %s: the claim is not granted in the era before", async (_, namespace, asked, where) => {
      const { direct, slow, proxy, request, grant } = await prepared(namespace);
      const held = proxy.hold(asked.trim(), where);
      const claim = slow.claim(other(namespace));
      claim.catch(() => undefined);
      await held.arrived;
      await beginEra(direct, request, grant);
      held.go();
      await expect(claim).rejects.toMatchObject({ code: "QUARANTINE" });
    });

    test("while a renewal is on its way: it is not answered in the era before", async () => {
      const namespace = "race_renewal";
      const { direct, slow, proxy, request, grant } = await prepared(namespace);
      const second = other(namespace);
      const lease = await granted(slow, second);
      const held = proxy.hold("PATCH snowlease-race-renewal-worker-1");
      const nextTurn = crypto.randomUUID().replaceAll("-", "");
      const renewal = slow.renew({
        ...keyOf(second, lease),
        clock: Date.now(),
        window: 2000,
        nextTurn,
        receipt: lease.receipt,
      });
      renewal.catch(() => undefined);
      await held.arrived;
      await beginEra(direct, request, grant);
      held.go();
      await expect(renewal).rejects.toMatchObject({ code: "QUARANTINE" });
    });

    test("between the reads of a late release: it ends nothing that the holder renewed meanwhile", async () => {
      const namespace = "race_reads";
      const { direct, slow, proxy, request, grant } = await prepared(namespace);
      const second = other(namespace);
      const lease = await granted(slow, second);
      const facts = proxy.hold("GET snowlease-race-reads-facts", "after");
      const record = proxy.hold("GET snowlease-race-reads-worker-1");
      const key = { ...keyOf(second, lease), window: 2000 };
      // A copy of the holder sends it, which knows of no renewal.
      const late = slow.release({ ...key, clock: Date.now(), used: { until: lease.from }, receipt: lease.receipt });
      await Promise.all([facts.arrived, record.arrived]);
      await beginEra(direct, request, grant);
      const { era } = (await direct.describe(namespace)) ?? {};
      await direct.endQuarantine?.({ namespace, era: era ?? "" });
      const [turn = "", nextTurn = ""] = Array.from({ length: 2 }, () => crypto.randomUUID().replaceAll("-", ""));
      const renewed = await outOfQuarantine(() =>
        direct.renew({ ...key, clock: Date.now(), nextTurn: turn, receipt: lease.receipt }),
      );
      const { receipt } = renewed as Renewal;
      record.go();
      facts.go();
      expect(await late).toMatchObject({ outcome: "lost" });
      const next = await direct.renew({ ...key, clock: Date.now(), turn, nextTurn, receipt });
      expect(next).toMatchObject({ outcome: "renewed" });
    });

    test("between the read of a record and that of the facts: a holder that proves it hears of the claim that was stored in between", async () => {
      const namespace = "race_waits";
      const { direct, slow, proxy, request, grant } = await prepared(namespace);
      const facts = proxy.hold("GET snowlease-race-waits-facts");
      const record = proxy.hold("GET snowlease-race-waits-worker-1", "after");
      const renewal = slow.renew(forgottenRenewal(namespace, grant));
      await Promise.all([facts.arrived, record.arrived]);
      await granted(direct, other(namespace));
      await beginEra(direct, request, grant);
      record.go();
      facts.go();
      expect(await renewal).toMatchObject({ outcome: "lost", doubt: expect.anything() as unknown });
    });

    test("sees a claim that was stored behind the read of its record: the holder that proves it is not told to go on", async () => {
      const namespace = "race_look";
      const { direct, slow, proxy, grant } = await prepared(namespace);
      const held = proxy.hold("PATCH snowlease-race-look-facts");
      const renewal = slow.renew(forgottenRenewal(namespace, grant));
      await held.arrived;
      await granted(direct, other(namespace));
      held.go();
      expect(await renewal).toMatchObject({ outcome: "lost", doubt: expect.anything() as unknown });
    });

    test("while a claim is asked once more: its grant of the era before is not answered again", async () => {
      const namespace = "race_again";
      const { direct, slow, proxy, request, grant } = await prepared(namespace);
      const second = other(namespace);
      await granted(direct, second);
      // Behind the facts, the claim that was granted is looked for.
      const held = proxy.hold("GET");
      const again = slow.claim(second);
      again.catch(() => undefined);
      await held.arrived;
      await beginEra(direct, request, grant);
      held.go();
      await expect(again).rejects.toMatchObject({ code: "QUARANTINE" });
    });

    test("is the next one where the facts alone are put back to an older copy", async () => {
      const namespace = "facts_back";
      const { direct, request, grant } = await prepared(namespace);
      const before = server.object("snowlease-facts-back-facts");
      await beginEra(direct, request, grant);
      const { era } = (await direct.describe(namespace)) ?? {};
      await direct.endQuarantine?.({ namespace, era: era ?? "" });
      const open = claimRequest({ namespace, workerId: 2 });
      const later = await outOfQuarantine(() => granted(direct, { ...open, clock: Date.now() }));
      server.putBack(before);
      const claim = direct.claim({ ...claimRequest({ namespace, workerId: 2 }), clock: Date.now() });
      await expect(claim).rejects.toMatchObject({ code: "QUARANTINE" });
      const renewal = direct.renew({
        ...keyOf(open, later),
        clock: Date.now(),
        window: 2000,
        nextTurn: crypto.randomUUID().replaceAll("-", ""),
        receipt: later.receipt,
      });
      await expect(renewal).rejects.toMatchObject({ code: "QUARANTINE" });
    });

    /** Asks again until the quarantine has ended. */
    async function outOfQuarantine<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
      for (;;) {
        try {
          return await ask();
        } catch (error) {
          if (!isSnowleaseError(error, "QUARANTINE")) throw error;
          await sleep(100);
        }
      }
    }
  },
);
