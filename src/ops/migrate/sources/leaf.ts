import { configInvalid } from "../../../id/errors.ts";
import { openConnection } from "../../../registries/zookeeper/connection.ts";
import type { ZooKeeperSession } from "../../../registries/zookeeper/session.ts";
import { readZooKeeperSettings } from "../../../registries/zookeeper/settings.ts";
import { plainAddress } from "../addresses.ts";
import type { SourceContents, Maker, Reach, SourceRequest } from "../source.ts";

/** How long a Leaf may have used its worker ID after its last report, ms. It reports every 3 s. */
const lag = 3000;
/** How many nodes are read at once. */
const batch = 100;

/**
 * `/snowflake/NAME/forever/{ip}:{port}-{sequence}`: the sequence is the worker ID. The first Leaf always uses 0, even if its node has
 * another sequence. So 0 identifies no host.
 */
export async function readLeaf({ address, numbers, operationTimeout }: SourceRequest): Promise<SourceContents> {
  const settings = readZooKeeperSettings(address);
  const connection = await openConnection(address, settings, operationTimeout);
  const ask = async <Answer>(calls: (session: ZooKeeperSession) => Promise<Answer>): Promise<Answer> => {
    const exchange = await connection.exchanges(connection.deadline());
    return exchange(calls);
  };
  try {
    const folder = await folderIn(`${settings.chroot}/snowflake`, address.parameters["name"], ask);
    const nodes = (await ask((session) => session.list(folder))) ?? [];
    // Leaf refuses to start above it.
    const highest = numbers - 1;
    const given = (await ask((session) => session.count(folder)))?.created ?? nodes.length;
    const makers: Maker[] = [];
    const remarks: string[] = [];
    for (let at = 0; at < nodes.length; at += batch) {
      const some = nodes.slice(at, at + batch);
      const found = await ask((session) => Promise.all(some.map((node) => session.get(`${folder}/${node}`))));
      for (const [i, node] of some.entries()) {
        const [, place = "", sequence = ""] = /^(.+)-(\d{1,10})$/.exec(node) ?? [];
        const workerId = Number(sequence);
        if (sequence === "" || workerId > highest) {
          remarks.push(`${folder}/${node} is not {ip}:{port}-{sequence} up to ${highest}: left out.`);
          continue;
        }
        const timestamp = timestampOf(found[i]?.data);
        if (timestamp === undefined) remarks.push(`${folder}/${node} holds no timestamp: its last use is not known.`);
        const usedUntil = timestamp === undefined ? undefined : timestamp + lag;
        makers.push({ workerId, name: place, address: plainAddress(place.replace(/:[^:]*$/, "")), usedUntil });
      }
    }
    const reach: Reach = { next: "above", highest: Math.min(highest, given - 1) };
    const retired = given === 0 ? [] : [{ first: 0, last: 0, why: "used by the first Leaf" }];
    return { makers, retired, reach, takesOver: true, remarks };
  } finally {
    await connection.close();
  }
}

/** The folder of the nodes for the given name, or for the only name. */
async function folderIn(
  root: string,
  given: string | undefined,
  ask: <Answer>(calls: (session: ZooKeeperSession) => Promise<Answer>) => Promise<Answer>,
): Promise<string> {
  const names = given === undefined ? ((await ask((session) => session.list(root))) ?? []) : [given];
  if (names.length <= 1) return `${root}/${names[0] ?? "NAME"}/forever`;
  throw configInvalid(
    `Expected one name below ${root}, got ${names.slice(0, 8).join(", ")}; name it in the URL (?name=NAME).`,
  );
}

/** The timestamp in a node's data: `{"ip":…,"port":…,"timestamp":…}`. */
function timestampOf(data: Uint8Array | undefined): number | undefined {
  try {
    const { timestamp } = JSON.parse(new TextDecoder().decode(data)) as { readonly timestamp?: unknown };
    return typeof timestamp === "number" && Number.isSafeInteger(timestamp) && timestamp >= 0 ? timestamp : undefined;
  } catch {
    return undefined;
  }
}
