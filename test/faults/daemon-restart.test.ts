import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { newDaemonOnFile, startDaemonProcess, type DaemonProcess } from "../support/daemon-process.ts";
import { eventually, HolderProcess } from "../support/holder.ts";
import { newRegistryFile, type RegistryFile } from "../support/registry-file.ts";
import { restartMatrix } from "../support/restart-matrix.ts";

restartMatrix("a daemon", newDaemonOnFile);

describe("a daemon that dies", () => {
  let file: RegistryFile;
  let daemon: DaemonProcess;
  let holders: HolderProcess[];

  beforeEach(async () => {
    file = await newRegistryFile();
    daemon = await startDaemonProcess(file.url);
    holders = [];
  });

  afterEach(async () => {
    await Promise.all(holders.map((holder) => holder.kill()));
    await daemon.end("SIGKILL");
    await file.stop();
  });

  function holder(options: object): HolderProcess {
    const made = new HolderProcess({ registry: daemon.url, namespace: "orders", ...options });
    holders.push(made);
    return made;
  }

  function allIds(): bigint[] {
    return holders.flatMap((made) => made.ids());
  }

  test("killed with -9 and started again, over and over, while three services make IDs: their renewals go on", async () => {
    const services = [1, 2, 3].map(() => holder({ window: 3000 }));
    const begun = [];
    for (const service of services) begun.push(await service.ask("start"));
    for (const service of services) await service.ask("run");
    const { port } = daemon;
    for (let round = 0; round < 4; round++) {
      await sleep(400);
      await daemon.end("SIGKILL");
      await sleep(300);
      daemon = await startDaemonProcess(file.url, port);
    }
    for (const [i, service] of services.entries()) {
      const renewed = Date.now() + 3000;
      await eventually(
        () => service.ask("state"),
        ({ until }) => until > renewed,
      );
      const state = await service.ask("pause");
      expect(state).toMatchObject({ state: "held", workerId: begun[i]?.workerId, fence: begun[i]?.fence });
      expect((await service.ask("close")).state).toBe("closed");
    }
    expect(new Set(allIds()).size).toBe(allIds().length);
    expect((await file.registry.workers("orders")).map(({ clean }) => clean)).toEqual([true, true, true]);
  });

  test("gone for longer than the window: the service stops at its end, and goes on when the daemon is back", async () => {
    const service = holder({ window: 1000 });
    const begun = await service.ask("start");
    await service.ask("run");
    await sleep(200);
    const { port } = daemon;
    await daemon.end("SIGKILL");
    await eventually(
      () => service.ask("state"),
      ({ failures }) => failures["LEASE_EXPIRED"] !== undefined,
    );
    const last = service.ids().length;
    await sleep(100);
    expect(service.ids()).toHaveLength(last);
    daemon = await startDaemonProcess(file.url, port);
    await eventually(
      () => service.ask("state"),
      ({ until }) => until > Date.now(),
    );
    await sleep(50);
    const back = await service.ask("pause");
    expect(back).toMatchObject({ state: "held", workerId: begun.workerId, fence: begun.fence });
    expect(service.ids().length).toBeGreaterThan(last);
    await service.ask("close");
    expect(new Set(allIds()).size).toBe(allIds().length);
  });

  test("drained with SIGTERM: its own lease is given back, those of services go on", async () => {
    const service = holder({ window: 3000 });
    await service.ask("start");
    const answer = await fetch(`${daemon.url}/v1/orders/ids`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ count: 5000 }),
    });
    const { ids } = (await answer.json()) as { ids: string[] };
    expect(new Set(ids).size).toBe(5000);
    expect(await daemon.end("SIGTERM")).toBe(0);
    const workers = await file.registry.workers("orders");
    expect(workers.map(({ state, clean }) => ({ state, clean }))).toEqual([
      { state: "live", clean: false },
      { state: "free", clean: true },
    ]);
    daemon = await startDaemonProcess(file.url, daemon.port);
    await service.ask("make", { count: 5000 });
    await service.ask("close");
    expect(new Set([...allIds(), ...ids.map(BigInt)]).size).toBe(10_000);
  });
});
