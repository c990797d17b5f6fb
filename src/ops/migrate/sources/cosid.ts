import { configInvalid, type SnowleaseError } from "../../../id/errors.ts";
import { plainAddress } from "../addresses.ts";
import { type SourceContents, type Maker, quoted, type Reach, type SourceRequest, wholeNumber } from "../source.ts";
import { readRedis, type RedisSource, textOf, textsOf } from "./redis.ts";
import { column, readSql } from "./sql.ts";

/** CosId reassigns machine IDs only by time, so the earlier holder may still use its ID. */
const takesOver = "a holder that CosId gave up may still use the number";
const why = "given out by CosId";

/** CosId hands out released machine IDs first, then new ones of its counter, then expired ones. */
const reachOf = ({ numbers }: SourceRequest): Reach => ({ next: "any", highest: numbers - 1 });

/** `cosid:{ns}:itc_idx`: instance -> `id|lastMs`. `:revert`: released machine IDs. `:adder`: the highest that was ever handed out. */
export function readCosidRedis(request: SourceRequest): Promise<SourceContents> {
  return readRedis(request, async (source) => {
    const namespace = await namespaceIn(source, request.address.parameters["namespace"]);
    const reach = reachOf(request);
    if (namespace === undefined) return { makers: [], retired: [], reach, takesOver, remarks: [] };
    const prefix = `cosid:${namespace}:`;
    const [index, revert, adder] = await source.ask(
      ["HGETALL", `${prefix}itc_idx`],
      ["HGETALL", `${prefix}revert`],
      ["GET", `${prefix}adder`],
    );
    const remarks: string[] = [];
    if (index === undefined) remarks.push(`${prefix}itc_idx is no hash: no host is known.`);
    if (revert === undefined) remarks.push(`${prefix}revert is no hash: released machine IDs are unknown.`);
    const makers = pairs(textsOf(index)).flatMap(([instance, state]): Maker[] => {
      const workerId = wholeNumber(state.split("|")[0] ?? "");
      if (workerId !== undefined) return [makerOf(instance, workerId)];
      remarks.push(`${prefix}itc_idx has ${quoted(state)} for ${quoted(instance)} and not id|lastMs: left out.`);
      return [];
    });
    // The counter is -1 before its first machine ID.
    const given = textOf(adder) === "-1" ? -1 : wholeNumber(textOf(adder) ?? "");
    if (given === undefined) remarks.push(`${prefix}adder is no number: only what is in itc_idx and revert is known.`);
    const reverted = pairs(textsOf(revert)).flatMap(([id]) => wholeNumber(id) ?? []);
    const last = Math.max(given ?? -1, ...reverted, ...makers.map(({ workerId }) => workerId));
    return { makers, retired: last < 0 ? [] : [{ first: 0, last, why }], reach, takesOver, remarks };
  });
}

/** The named namespace, or else the only one, with its braces, which are part of the key. */
async function namespaceIn({ scan }: RedisSource, named: string | undefined): Promise<string | undefined> {
  if (named !== undefined) return `{${named.replace(/^\{|\}$/g, "")}}`;
  const found = new Set<string>();
  for await (const keys of scan("cosid:{*}:*")) {
    // A namespace without running instances has no `itc_idx`.
    for (const key of keys) {
      const [, name] = /^cosid:(\{.*\}):(?:itc_idx|adder|revert)$/s.exec(key) ?? [];
      if (name !== undefined) found.add(name);
    }
  }
  if (found.size > 1) throw severalNamespaces([...found].map((name) => name.slice(1, -1)));
  return [...found][0];
}

/** `cosid_machine`: one row for each machine ID. A row without an instance is released. */
export async function readCosidSql(request: SourceRequest): Promise<SourceContents> {
  const select = "SELECT namespace AS name, machine_id, instance_id FROM cosid_machine ORDER BY machine_id";
  const rows = await readSql(request, select, "table cosid_machine");
  const named = request.address.parameters["namespace"];
  const namespaces = [...new Set(rows.map((row) => column(row, "name") ?? ""))];
  if (named === undefined && namespaces.length > 1) throw severalNamespaces(namespaces);
  const own = rows.filter((row) => named === undefined || column(row, "name") === named);
  const makers: Maker[] = [];
  const remarks: string[] = [];
  const retired = own.flatMap((row) => {
    const [id = "", instance = ""] = [column(row, "machine_id"), column(row, "instance_id")?.trim()];
    const workerId = wholeNumber(id);
    if (workerId === undefined) {
      remarks.push(`cosid_machine has the machine ID ${quoted(id)}: left out.`);
      return [];
    }
    if (instance !== "") makers.push(makerOf(instance, workerId));
    return [{ first: workerId, last: workerId, why }];
  });
  return { makers, retired, reach: reachOf(request), takesOver, remarks };
}

/** An instance is an address or a host name, with a port, or any text from its configuration. */
function makerOf(instance: string, workerId: number): Maker {
  return { workerId, name: instance, address: plainAddress(instance.replace(/:\d+$/, "").replace(/^\[|\]$/g, "")) };
}

function pairs(flat: readonly string[]): readonly (readonly [string, string])[] {
  return flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? ""] as const] : []));
}

function severalNamespaces(names: readonly string[]): SnowleaseError {
  return configInvalid(
    `Expected one namespace of CosId, got ${names.slice(0, 8).join(", ")}; name it in the URL (?namespace=NAME).`,
  );
}
