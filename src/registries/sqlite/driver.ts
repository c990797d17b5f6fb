import { pathToFileURL } from "node:url";
import { shown, SnowleaseError } from "../../id/errors.ts";

/** What a parameter may be, and what a column holds. */
type SqliteValue = number | string | Uint8Array | null;

/** A row by column name. Its columns have the types of a STRICT schema, so whoever asks for one says what it is. */
export type SqliteRow = Readonly<Record<string, SqliteValue>>;

/** The parameters of a statement by name: `$host` is `host`. Neither more nor less than it has. */
export type SqliteParameters = Readonly<Record<string, SqliteValue>>;

/** A prepared statement. */
export interface SqliteStatement {
  get(parameters?: SqliteParameters): SqliteRow | undefined;
  all(parameters?: SqliteParameters): readonly SqliteRow[];
  /** Returns how many rows it changed. */
  run(parameters?: SqliteParameters): number;
}

/** An open database. Its errors are the driver's own: see `sqliteCode`. */
export interface SqliteConnection {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** The one SQLite of this process. */
export interface SqliteDriver {
  /** Opens a file, made when it is missing. */
  open(path: string): SqliteConnection;
  /** Opens a file as it lies there: no locks, no other file beside it, nothing written. */
  openFrozen(path: string): SqliteConnection;
}

/** What `node:sqlite` and `libsql` share of what is used here. */
interface NativeDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): NativeStatement;
  close(): unknown;
  defaultSafeIntegers?(on: boolean): unknown;
}

interface NativeStatement {
  get(parameters: object): unknown;
  all(parameters: object): unknown[];
  run(parameters: object): { readonly changes: number | bigint };
}

type NativeConstructor = new (path: string, options?: { readonly readOnly?: boolean }) => NativeDatabase;

/**
 * Loads the SQLite that is built into Node (22.13 and newer), else the package `libsql`.
 * @throws SnowleaseError DRIVER_MISSING
 */
export async function loadDriver(): Promise<SqliteDriver> {
  const Native = loadBuiltin() ?? (await loadPackage());
  return {
    open: (path) => connectionTo(new Native(path)),
    openFrozen: (path) => connectionTo(new Native(`${pathToFileURL(path).href}?immutable=1`, { readOnly: true })),
  };
}

function loadBuiltin(): NativeConstructor | undefined {
  const { emitWarning } = process;
  // Node 22 says once in each process that its SQLite is experimental: true, and nothing that the user of a program that
  // leases a number can act on. Loading is synchronous, so no other warning can come in between.
  process.emitWarning = () => undefined;
  try {
    return (process.getBuiltinModule("node:sqlite") as { DatabaseSync: NativeConstructor } | undefined)?.DatabaseSync;
  } finally {
    process.emitWarning = emitWarning;
  }
}

async function loadPackage(): Promise<NativeConstructor> {
  try {
    return ((await import("libsql")) as unknown as { default: NativeConstructor }).default;
  } catch (cause) {
    throw new SnowleaseError(
      "DRIVER_MISSING",
      "The embedded registry needs SQLite, and this Node has none: run `npm install libsql@0.5`, or use Node 22.13 or newer.",
      {},
      { cause },
    );
  }
}

function connectionTo(database: NativeDatabase): SqliteConnection {
  // Otherwise libsql rounds an integer above 2^53 without a word; node:sqlite throws.
  database.defaultSafeIntegers?.(true);
  return {
    exec: (sql) => void database.exec(sql),
    close: () => void database.close(),
    prepare(sql) {
      const statement = database.prepare(sql);
      return {
        get: (parameters) => rowOf(statement.get(bound(parameters))),
        all: (parameters) => statement.all(bound(parameters)).map((row) => rowOf(row) ?? {}),
        run: (parameters) => Number(statement.run(bound(parameters)).changes),
      };
    },
  };
}

/** Both drivers bind a number as a float; an integer stays one in every expression, and the whole way to 2^53. */
function bound(parameters: SqliteParameters = {}): Readonly<Record<string, unknown>> {
  const bound: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parameters)) {
    if (typeof value === "number" && !Number.isSafeInteger(value)) {
      throw new SnowleaseError("CONFIG_INVALID", `Expected \`${name}\` to be an integer, got ${shown(value)}.`);
    }
    bound[name] = typeof value === "number" ? BigInt(value) : value;
  }
  return bound;
}

/**
 * The one place where what a driver answers becomes ours: bigint to number, any kind of bytes to Uint8Array. In the row itself, for another
 * one would double what a million rows cost.
 */
function rowOf(native: unknown): SqliteRow | undefined {
  if (native === undefined || native === null) return undefined;
  const row = native as Record<string, unknown>;
  for (const column of Object.keys(row)) {
    const value = row[column];
    if (typeof value === "bigint") row[column] = exact(value, column);
    else if (value instanceof Uint8Array || value instanceof ArrayBuffer) row[column] = new Uint8Array(value);
  }
  return row as SqliteRow;
}

function exact(value: bigint, column: string): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new RangeError(`the column ${column} holds ${value}, which was never written by Snowlease`);
}

/** SQLite's primary result code in an error of either driver; undefined for one that did not come from SQLite. */
export function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { errcode, rawCode } = error as { errcode?: unknown; rawCode?: unknown };
  // libsql tells why it could not open a file only in the text.
  const code = errcode ?? rawCode ?? /^ConnectionFailed\(.*: (\d+)"\)$/s.exec(error.message)?.[1];
  return code === undefined ? undefined : Number(code) & 0xff;
}
