import zookeeper from "node-zookeeper-client";
import { expect } from "vitest";
import { unusedRecord } from "../../src/rule/pin.ts";
import type { Stored } from "../../src/rule/window.ts";
import { Nodes, tokenIn } from "../../src/registries/zookeeper/nodes.ts";
import { recordBytes } from "../../src/registries/zookeeper/records.ts";

type Client = ReturnType<typeof zookeeper.createClient>;

/** Runs work with the driver itself. */
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

/** Makes a node for a test. */
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

/** The version of a node: how often it was written since it was made. */
export function nodeVersion(port: number, path: string): Promise<number> {
  return withDriver(port, (client) => {
    return new Promise((resolve, reject) =>
      client.exists(path, (error, stat) => (error ? reject(new Error(String(error))) : resolve(stat.version))),
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

/** The contents of a node and of all nodes below it, by path. */
export async function nodeTexts(port: number, path: string): Promise<Record<string, string>> {
  const paths = await withDriver(port, (client) => pathsOf(client, path));
  return Object.fromEntries(await Promise.all(paths.map(async (each) => [each, await nodeText(port, each)])));
}

/** Allows all users to read a node and all nodes below it, and nothing else, from now on. */
export function letRead(port: number, path: string): Promise<void> {
  return withDriver(port, async (client) => {
    const acl = [new zookeeper.ACL(zookeeper.Permission.READ, new zookeeper.Id("world", "anyone"))];
    for (const each of await pathsOf(client, path)) await called((done) => client.setACL(each, acl, -1, done));
  });
}

/** Forbids all users to make a node below this one, from now on. */
export function forbidChildren(port: number, path: string): Promise<void> {
  const { READ, WRITE, DELETE } = zookeeper.Permission;
  const acl = [new zookeeper.ACL(READ | WRITE | DELETE, new zookeeper.Id("world", "anyone"))];
  return withDriver(port, (client) => called((done) => client.setACL(path, acl, -1, done)));
}

/** Overwrites a node, as an operator does by hand. */
export function setNode(port: number, path: string, text: string): Promise<void> {
  return withDriver(port, (client) => called((done) => client.setData(path, Buffer.from(text), -1, done)));
}

/** Deletes a node without nodes below it. */
export function removeNode(port: number, path: string): Promise<void> {
  return withDriver(port, (client) => called((done) => client.remove(path, -1, done)));
}

/**
 * Deletes a node and all nodes below it, as `deleteall` of the command line does, but in one step. If a holder makes or removes a node
 * meanwhile, nothing is deleted yet.
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

/** Makes the nodes of worker IDs without holders, as they are after their holders died. Their folders may exist. */
export function makeRecords(
  port: number,
  namespace: string,
  ids: readonly number[],
  until: (workerId: number) => number,
): Promise<void> {
  return withDriver(port, async (client) => {
    const nodes = new Nodes("/snowlease", namespace);
    const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/"));
    const places = ids.map((workerId) => {
      const end = until(workerId);
      const record = { ...unusedRecord(workerId), fence: 1, from: end - 1000, until: end, knownFrom: end - 1000 };
      return { record, paths: [nodes.state(workerId), nodes.rows(workerId), ...nodes.indexes(record)] };
    });
    const slots = new Set(places.flatMap(({ paths }) => paths.map(folderOf)));
    for (const path of slots) await called((done) => client.create(path, done)).catch(() => undefined);
    for (let begin = 0; begin < places.length; begin += 100) {
      const transaction = client.transaction();
      for (const { record, paths } of places.slice(begin, begin + 100)) {
        const [state = "", ...others] = paths;
        transaction.create(state, Buffer.from(recordBytes(record)));
        for (const path of others) transaction.create(path);
      }
      await called((done) => transaction.commit(done));
    }
  });
}

/**
 * All nodes of a ZooKeeper from this root on, with their contents. The driver itself reads them. A node that is removed meanwhile is left
 * out.
 */
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
  await withDriver(port, (client) => read(client, root));
  return nodes;
}

/** Compares the indexes of a namespace with the records. Both are written together, so they agree, whatever happened. */
export function expectWhole(nodes: Map<string, string>, namespace = "orders"): void {
  const paths = new Nodes("/snowlease", namespace);
  const { root } = paths;
  const below = (folder: string): string[] => [...nodes.keys()].filter((path) => path.startsWith(`${root}/${folder}/`));
  const records = below("state")
    .filter((path) => path.split("/").length === 6)
    .map((path) => JSON.parse(nodes.get(path) ?? "") as Stored);
  const last = (path: string): string => path.split("/").at(-1) ?? "";

  const tokens = below("token").map((path) => `${last(path)} ${nodes.get(path)}`);
  const held = records.flatMap(({ token, workerId }) => (token === undefined ? [] : [`${token} ${workerId}`]));
  expect(tokens.toSorted()).toEqual(held.toSorted());

  const entries = ["host", "idle", "owner"].flatMap(below).filter((path) => path.split("/").length === 6);
  expect(entries.toSorted()).toEqual(records.flatMap((record) => paths.indexes(record)).toSorted());

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

/** Worker IDs whose holders' sessions live, according to the nodes of these sessions. */
export function liveIn(nodes: Map<string, string>): number[] {
  return [...nodes.keys()].flatMap((path) => {
    const [id, name = ""] = path.split("/").slice(-2);
    return tokenIn(name) === undefined ? [] : [Number(id)];
  });
}
