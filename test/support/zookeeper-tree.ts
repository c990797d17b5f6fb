import { setTimeout as sleep } from "node:timers/promises";
import zookeeper from "node-zookeeper-client";
import { expect } from "vitest";
import { unusedRecord } from "../../src/rule/pin.ts";
import { Nodes, parseEphemeral } from "../../src/registries/zookeeper/nodes.ts";
import { recordBytes } from "../../src/registries/zookeeper/records.ts";

type Client = ReturnType<typeof zookeeper.createClient>;

/** Runs an operation with the driver itself. */
async function withDriver<Done>(port: number, work: (client: Client) => Promise<Done>): Promise<Done> {
  const client = zookeeper.createClient(`127.0.0.1:${port}`, { sessionTimeout: 10_000 });
  try {
    await new Promise<void>((resolve) => {
      client.once("connected", () => resolve());
      client.connect();
    });
    return await work(client);
  } finally {
    client.close();
  }
}

/** One call of the driver. */
function called(call: (done: (error: { name: string } | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => call((error) => (error ? reject(new Error(error.name)) : resolve())));
}

/** Makes a node of the test's own. */
export function makeNode(port: number, path: string, text = ""): Promise<void> {
  return withDriver(port, (client) => called((done) => client.create(path, Buffer.from(text), done)));
}

/** The content of a node. */
export function nodeText(port: number, path: string): Promise<string> {
  return withDriver(port, (client) => {
    return new Promise((resolve, reject) =>
      client.getData(path, (error, data) => (error ? reject(new Error(String(error))) : resolve(String(data)))),
    );
  });
}

/** The paths of a node and of all below it. */
async function pathsOf(client: Client, path: string): Promise<string[]> {
  const names = await new Promise<string[]>((resolve, reject) =>
    client.getChildren(path, (error, names) => (error ? reject(new Error(String(error))) : resolve(names))),
  );
  const below = await Promise.all(names.map((name) => pathsOf(client, `${path}/${name}`)));
  return [path, ...below.flat()];
}

/** The contents of a node and of all below it, by path. */
export async function nodeTexts(port: number, path: string): Promise<Record<string, string>> {
  const paths = await withDriver(port, (client) => pathsOf(client, path));
  return Object.fromEntries(await Promise.all(paths.map(async (each) => [each, await nodeText(port, each)])));
}

/** From now on, every client may read a node and all below it, but not change it. */
export function letRead(port: number, path: string): Promise<void> {
  return withDriver(port, async (client) => {
    const acl = [new zookeeper.ACL(zookeeper.Permission.READ, new zookeeper.Id("world", "anyone"))];
    for (const each of await pathsOf(client, path)) await called((done) => client.setACL(each, acl, -1, done));
  });
}

/** Acts like an operator: writes into a node, whatever its content. */
export function setNode(port: number, path: string, text: string): Promise<void> {
  return withDriver(port, (client) => called((done) => client.setData(path, Buffer.from(text), -1, done)));
}

/** Deletes a node that has none below it. */
export function removeNode(port: number, path: string): Promise<void> {
  return withDriver(port, (client) => called((done) => client.remove(path, -1, done)));
}

/**
 * Deletes a node and all below it, as `deleteall` of the command line does, but in one step: if a holder makes or removes a node meanwhile,
 * nothing is deleted yet.
 */
export function deleteAll(port: number, path: string): Promise<void> {
  return withDriver(port, async (client) => {
    for (;;) {
      const step = client.transaction();
      for (const each of (await pathsOf(client, path)).toReversed()) step.remove(each, -1);
      try {
        return await called((done) => step.commit((error) => done(error)));
      } catch (error) {
        if (!/^(?:NOT_EMPTY|NO_NODE)$/.test((error as Error).message)) throw error;
      }
    }
  });
}

/** Makes the nodes of worker IDs without holders, as after their holders died. Their folders may exist. */
export function makeRecords(
  port: number,
  namespace: string,
  ids: readonly number[],
  until: (workerId: number) => number,
): Promise<void> {
  return withDriver(port, async (client) => {
    const nodes = new Nodes("/snowlease", namespace);
    const folders = new Set(ids.flatMap((id) => nodes.bucketsOf(id)));
    for (const path of folders) await called((done) => client.create(path, done)).catch(() => undefined);
    for (let begin = 0; begin < ids.length; begin += 500) {
      const transaction = client.transaction();
      for (const workerId of ids.slice(begin, begin + 500)) {
        const end = until(workerId);
        const record = { ...unusedRecord(workerId), fence: 1, from: end - 1000, until: end, knownFrom: end - 1000 };
        transaction.create(nodes.state(workerId), Buffer.from(recordBytes(record, false)));
        transaction.create(nodes.rows(workerId));
      }
      await called((done) => transaction.commit(done));
    }
  });
}

/** All nodes of a ZooKeeper below the registry's, with their content, read by the driver itself. Leaves out a node that goes meanwhile. */
export async function readTree(port: number, root = "/snowlease"): Promise<Map<string, string>> {
  const nodes = new Map<string, string>();
  const read = async (client: Client, path: string): Promise<void> => {
    const answer =
      <Value>(resolve: (value: Value | undefined) => void, reject: (error: Error) => void) =>
      (error: Error | { name: string } | null, value: Value): void => {
        if (error?.name === "NO_NODE") resolve(undefined);
        else if (error) reject(new Error(`${path}: ${error.name}`));
        else resolve(value);
      };
    const data = await new Promise<Buffer | undefined>((resolve, reject) => {
      client.getData(path, answer(resolve, reject));
    });
    const names = await new Promise<string[] | undefined>((resolve, reject) => {
      client.getChildren(path, answer(resolve, reject));
    });
    if (names === undefined) return;
    nodes.set(path, data?.toString() ?? "");
    await Promise.all(names.map((name) => read(client, `${path}/${name}`)));
  };
  for (let left = mostReads; ; left--) {
    nodes.clear();
    try {
      await withDriver(port, (client) => read(client, root));
      return nodes;
    } catch (error) {
      // Servers that were just woken may elect another leader, and close their connections.
      if (left === 1 || !/CONNECTION_LOSS|SESSION_EXPIRED/.test(String(error))) throw error;
      await sleep(betweenReads);
    }
  }
}

/** With this pause, ms. */
const [mostReads, betweenReads] = [10, 300];

interface Told {
  readonly workerId: number;
  readonly fence: number;
  readonly token?: string;
  readonly holder?: { readonly host: string };
  readonly sticky: boolean;
}

/** Compares the indexes of a namespace with the records: they are written together, so that they always agree. */
export function expectWhole(nodes: Map<string, string>, namespace = "orders"): void {
  const paths = new Nodes("/snowlease", namespace);
  const { root } = paths;
  const below = (folder: string): string[] => [...nodes.keys()].filter((path) => path.startsWith(`${root}/${folder}/`));
  const records = below("state")
    .filter((path) => path.split("/").length === 6)
    .map((path) => JSON.parse(nodes.get(path) ?? "") as Told);
  const last = (path: string): string => path.split("/").at(-1) ?? "";

  const tokens = below("token").map((path) => `${last(path)} ${nodes.get(path)}`);
  const held = records.flatMap(({ token, workerId }) => (token === undefined ? [] : [`${token} ${workerId}`]));
  expect(tokens.toSorted()).toEqual(held.toSorted());

  const hosts = below("host").filter((path) => path.split("/").length === 6);
  const sticky = records.flatMap(({ sticky, holder, workerId }) =>
    sticky && holder !== undefined ? [paths.ofHost(holder.host, workerId)] : [],
  );
  expect(hosts.toSorted()).toEqual(sticky.toSorted());

  for (const { workerId, fence, token } of records) {
    const rows = below("history").filter((path) => path.split("/")[5] === String(workerId).padStart(10, "0"));
    const fences = rows.filter((path) => path.split("/").length === 7).map((path) => Number(last(path)));
    const ended = token === undefined ? fence : fence - 1;
    expect(fences.toSorted((a, b) => a - b)).toEqual(Array.from({ length: ended }, (_, i) => i + 1));
  }
  const known = new Set(records.map(({ workerId }) => workerId));
  for (const path of below("next")) {
    const [first = 0] = last(path).split("-").map(Number);
    for (let id = first; id < Number(nodes.get(path)); id++) expect(known).toContain(id);
  }
}

/** Worker IDs whose holders' sessions live, by the nodes of these sessions. */
export function liveIn(nodes: Map<string, string>): number[] {
  return [...nodes.keys()].flatMap((path) => parseEphemeral(path.split("/").at(-1) ?? "")?.workerId ?? []);
}
