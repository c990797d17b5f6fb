// Everything that the package `snowlease` exports, each used once, in the order in which one comes to need it. What is about other
// sources of worker IDs stands in assigner.ts, what is about stores in journal.ts and own-registry, what is for tests in testing.ts.
//
//   npx tsx examples/library.ts
import { Registry } from "prom-client";
import {
  type Clock,
  collectMetrics,
  type Duration,
  type Encoding,
  type EncodingName,
  encodings,
  type ErrorCode,
  errorCodes,
  type ErrorDetails,
  type Health,
  type IdParts,
  type InitOptions,
  isSnowleaseError,
  type JoinedLease,
  joinLease,
  Layout,
  type LayoutField,
  layouts,
  type LayoutSpec,
  type Lease,
  type LeaseEvents,
  type LeaseFacts,
  type LeaseState,
  lendLease,
  type Lender,
  listRecents,
  type MetricsTarget,
  type Mode,
  openRegistry,
  type ComposeParts,
  type PoolBounds,
  type Recents,
  Ring,
  type RegistryToOpen,
  type RingOptions,
  type RollbackOptions,
  type Share,
  type SharedLease,
  type SharedSnowflake,
  type SleepOptions,
  SnowleaseError,
  snowlease,
  type SnowleaseOptions,
  Snowflake,
  type SnowflakeOptions,
  systemClock,
  type TextOptions,
  type WaitOptions,
} from "snowlease";
import { memoryRegistry } from "snowlease/testing";

const window: Duration = "10s";
const pool: PoolBounds = { first: 512, last: 1023 };
const options: SnowleaseOptions = { registry: "memory:", namespace: "orders", window, pool };

/** The first claim makes a namespace. A new Redis needs your word before it that the namespace never existed. */
async function makeNamespace(): Promise<void> {
  const asked: InitOptions = { ...options, namespace: "invoices", new: true };
  const { layout, maxWindow } = await snowlease.init(asked);
  console.log(layout, maxWindow);
}

/** IDs, one by one and in bulk. */
async function makeIds(): Promise<void> {
  const ids: Snowflake = await snowlease(options);
  const one: bigint = ids.next(); // at once, or it throws
  const text: string = ids.nextString();
  const wait: WaitOptions = { timeout: "1s" };
  const later: bigint = await ids.nextAsync(wait); // waits for the clock, the window, the next millisecond
  console.log(one, text, later);

  const many = new BigUint64Array(1000);
  console.log(`${ids.fill(many)} as numbers`);
  const around: TextOptions = { before: "'", after: "',\n" };
  console.log(`${ids.fillText(new Uint8Array(4096), around)} bytes of text`);
  await ids.close();
}

/** Several namespaces, over the connections of one registry. */
async function useNamespaces(): Promise<void> {
  const asked: RegistryToOpen = { registry: "memory:", operationTimeout: "2s" };
  const registry = await openRegistry(asked);
  const [orders, invoices] = await Promise.all(
    ["orders", "invoices"].map((namespace) => snowlease({ ...options, registry, namespace })),
  );
  console.log(orders?.next(), invoices?.next());
  await Promise.all([orders?.close(), invoices?.close()]);
  await registry.close();
}

/** What happens to a lease. */
async function watchLease(): Promise<void> {
  const ids = await snowlease(options);
  const { lease }: { readonly lease: Lease } = ids;
  const told = (event: string, { workerId, until }: LeaseFacts): void => console.log(event, workerId, until);
  lease.on("scope", ({ text }) => console.log(text)); // "Worker IDs are unique among …"
  lease.on("acquired", (event) => told("acquired", event));
  lease.on("released", (event) => told("released", event));
  lease.on("clock.rollback", ({ behind, action }: LeaseEvents["clock.rollback"]) => console.log(behind, action));
  lease.signal.addEventListener("abort", () => console.log("lost for good"));
  const before: LeaseState = lease.state;
  await ids.close();
  console.log(before, "->", lease.state);
}

/** Whether IDs are made, for a readiness probe and for the metrics of the program. */
async function showHealth(): Promise<void> {
  const ids = await snowlease(options);
  const { ok, detail }: Health = ids.health();
  console.log(ok, detail); // true "Worker 512 of namespace `orders` makes IDs until …"
  const target: MetricsTarget = new Registry(); // of prom-client, or a meter of OpenTelemetry
  collectMetrics(ids, target);
  await ids.close();
}

/** What can go wrong is a closed set, and says whether to try again. */
async function handleErrors(): Promise<void> {
  const ids = await snowlease(options);
  await ids.close();
  try {
    ids.next();
  } catch (error) {
    if (!isSnowleaseError(error, "LEASE_LOST")) throw error;
    const { code, retryable, details }: { code: ErrorCode; retryable: boolean; details: ErrorDetails } = error;
    console.log(code, retryable, details.retryAfterMs, errorCodes.length);
  }
  const own = new SnowleaseError(
    "CONFIG_INVALID",
    "Expected a worker ID of our own rack, got `7`; correct the host's name.",
  );
  console.log(own.message);
}

/** IDs are numbers with fields, and have several texts. */
function readIds(): void {
  const id = 1278549019894743040n;
  const parts: IdParts = layouts.westid.decompose(id);
  const same: ComposeParts = { timestamp: parts.timestamp, workerId: parts.workerId, sequence: parts.sequence };
  console.log(layouts.westid.compose(same) === id);

  const fields: readonly LayoutField[] = [
    { name: "timestamp", bits: 41 },
    { name: "rack", bits: 4 },
    { name: "worker", bits: 6 },
    { name: "sequence", bits: 12 },
  ];
  const spec: LayoutSpec = { fields, epoch: Date.UTC(2025, 0, 1) };
  console.log(new Layout(spec).fingerprint);

  const name: EncodingName = "base62sort";
  const encoding: Encoding = encodings[name];
  console.log(encoding.encode(id), encoding.decode(encoding.encodeFixed(id)) === id);
}

/** More IDs than the clock has milliseconds for, prepared. */
async function prepareIds(): Promise<void> {
  const mode: Mode = "lead";
  const ids = await snowlease({ ...options, mode });
  const size: RingOptions = { boost: 1, paddingFactor: 25 };
  const ring = new Ring(ids, size);
  console.log(ring.next() < ring.next(), ring.size);
  await ids.close();
}

/** One lease for threads and child processes; threads.mjs and cluster.mjs show it across them. */
async function shareLease(): Promise<void> {
  const ids: SharedSnowflake = await snowlease({ ...options, shared: true });
  const lease: SharedLease = ids.share(); // for `workerData` or `postMessage`
  const joined: Snowflake<JoinedLease> = joinLease(lease); // in the thread
  const share: Share = joined.lease; // its blocks of each span of the window
  console.log(share === joined.lease);
  console.log((await joined.nextAsync()) !== (await ids.nextAsync()));
  await joined.close();
  const lender: Lender = await lendLease(ids);
  console.log(Object.keys(lender.env)); // for the environment of a child
  await lender[Symbol.asyncDispose]();
  await ids.close();
}

/** A clock of your own, such as one that a time server disciplines. */
async function readClock(): Promise<void> {
  const rest: SleepOptions = { keepAlive: false };
  const clock: Clock = { ...systemClock, sleep: (ms, more) => systemClock.sleep(ms, { ...rest, ...more }) };
  const ids = await snowlease({ ...options, clock });
  ids.next();
  // The generator that `snowlease` makes. There is one for a lease, which is told about it.
  const rollback: Partial<RollbackOptions> = { maxWait: 100 };
  const how: SnowflakeOptions = { mode: "wall", rollback };
  try {
    console.log(new Snowflake(ids.lease, how));
  } catch (error) {
    console.log(isSnowleaseError(error) && error.code);
  }
  await ids.close();
}

/** What a holder leaves to the next one, in the words of a registry: for whoever looks into a store. */
async function readRecents(): Promise<void> {
  const registry = memoryRegistry();
  const ids = await snowlease({ registry });
  ids.next();
  await ids.close();
  const recents: Recents | undefined = (await registry.worker("default", ids.lease.workerId))?.recents;
  if (recents === undefined) return;
  for (const [tick, sequence] of listRecents(layouts.westid, recents)) console.log(tick, sequence);
}

await makeNamespace();
await showHealth();
await makeIds();
await useNamespaces();
await watchLease();
await handleErrors();
readIds();
await prepareIds();
await shareLease();
await readClock();
await readRecents();
