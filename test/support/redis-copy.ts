import type { RedisServer } from "./redis.ts";

/** The values of the keys with this beginning. */
export async function dumped(server: RedisServer, names: string): Promise<[string, Buffer][]> {
  const client = server.client();
  const keys = await client.keys(names);
  const dumps = client.multi();
  for (const key of keys) dumps.dumpBuffer(key);
  // Read in one step, so that the copy is of one moment.
  const values = (await dumps.exec()) ?? [];
  return keys.flatMap((key, i): [string, Buffer][] => {
    const value = values[i]?.[1];
    return Buffer.isBuffer(value) ? [[key, value]] : [];
  });
}

/** Copies the keys with this beginning. Returns a function that puts the copies in place of the present keys, in one step. */
export async function copyOfKeys(server: RedisServer, names: string): Promise<() => Promise<void>> {
  const values = await dumped(server, names);
  return async () => {
    const steps = server.client().multi();
    // This also deletes keys that were made before this step.
    steps.eval("for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end", 0, names);
    for (const [key, value] of values) steps.restore(key, 0, value);
    const answers = await steps.exec();
    const refused = answers?.find(([error]) => error !== null);
    if (answers === null || refused !== undefined) throw refused?.[0] ?? new Error("The keys changed meanwhile.");
  };
}
