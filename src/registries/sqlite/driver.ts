import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { shown, SnowleaseError } from "../../id/errors.ts";

/** The value of a parameter or a column. */
type SqliteValue = number | string | Uint8Array | null;

/**
 * A row by column name. The schema is STRICT, so a reader may rely on the type of each column. Or all parameters of a statement, and no
 * others, by name: `$host` is `host`.
 */
export type SqliteRow = Readonly<Record<string, SqliteValue>>;

/** A prepared statement. */
export interface SqliteStatement {
  get(parameters?: SqliteRow): SqliteRow | undefined;
  all(parameters?: SqliteRow): readonly SqliteRow[];
  /** Returns how many rows the statement changed. */
  run(parameters?: SqliteRow): number;
}

/** An open database. Its errors are the driver's own: see `sqliteCode`. */
export interface SqliteConnection {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** The SQLite of this process. There is only one. */
export interface SqliteDriver {
  /** Opens a file. Creates it if it is missing. */
  open(path: string): SqliteConnection;
  /** Opens a file for reading, without locks and without the files beside it. */
  openFrozen(path: string): SqliteConnection;
}

/** What this file uses of both `node:sqlite` and `libsql`. */
interface NativeDatabase extends Pick<SqliteConnection, "exec" | "close"> {
  prepare(sql: string): NativeStatement;
  defaultSafeIntegers?(on: boolean): unknown;
}

interface NativeStatement {
  get(parameters: object): unknown;
  all(parameters: object): unknown[];
  run(parameters: object): { readonly changes: number | bigint };
}

type NativeConstructor = new (path: string, options?: { readonly readOnly?: boolean }) => NativeDatabase;

/**
 * Loads the SQLite that is built into Node (22.13 and newer), otherwise the package `libsql`.
 * @throws SnowleaseError DRIVER_MISSING
 */
export async function loadSqlite(): Promise<SqliteDriver> {
  const Native = loadBuiltin() ?? (await loadPackage());
  return {
    open: (path) => connectionTo(new Native(path)),
    openFrozen: (path) => connectionTo(new Native(`${pathToFileURL(path).href}?immutable=1`, { readOnly: true })),
  };
}

function loadBuiltin(): NativeConstructor | undefined {
  const { emitWarning } = process;
  // Node 22 warns once in each process that its SQLite is experimental. Loading is synchronous, so no other warning is lost.
  process.emitWarning = () => undefined;
  try {
    return (process.getBuiltinModule("node:sqlite") as { DatabaseSync: NativeConstructor } | undefined)?.DatabaseSync;
  } finally {
    process.emitWarning = emitWarning;
  }
}

async function loadPackage(): Promise<NativeConstructor> {
  try {
    return ((await import(/* webpackIgnore: true */ "libsql")) as unknown as { default: NativeConstructor }).default;
  } catch (cause) {
    try {
      // The package contains machine code, which a bundle cannot contain. So the package is beside the program.
      return createRequire(process.argv[1] ?? process.execPath)("libsql") as NativeConstructor;
    } catch {
      throw new SnowleaseError(
        "DRIVER_MISSING",
        "The embedded registry needs SQLite, and this Node has none: run `npm install libsql@0.5`, or use Node 22.13 or newer.",
        {},
        { cause },
      );
    }
  }
}

function connectionTo(database: NativeDatabase): SqliteConnection {
  // Without this, libsql silently rounds an integer above 2^53, and node:sqlite throws.
  database.defaultSafeIntegers?.(true);
  return {
    exec: (sql) => database.exec(sql),
    close: () => database.close(),
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

/** Both drivers bind a number as a float. A bigint stays an integer in every expression, and is exact up to 2^53. */
function bound(parameters: SqliteRow = {}): Readonly<Record<string, unknown>> {
  const bound: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(parameters)) {
    if (typeof value === "number" && !Number.isSafeInteger(value)) {
      throw new SnowleaseError("CONFIG_INVALID", `Expected \`${name}\` to be an integer, got ${shown(value)}.`);
    }
    bound[name] = typeof value === "number" ? BigInt(value) : value;
  }
  return bound;
}

/** Gives a driver's row the types of a `SqliteRow`. Changes the row itself: a copy would double the cost of a million rows. */
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

/** The codes that this registry distinguishes, by the text of SQLite's `sqlite3_errstr`: the SQLite of Deno returns only the text. */
const codesByText: Readonly<Record<string, number>> = {
  "access permission denied": 3,
  "database is locked": 5,
  "attempt to write a readonly database": 8,
  "disk I/O error": 10,
  "database disk image is malformed": 11,
  "database or disk is full": 13,
  "unable to open database file": 14,
  "locking protocol": 15,
  "file is not a database": 26,
};

/** SQLite's primary result code in an error of either driver; undefined for an error that is not SQLite's. */
export function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined;
  const { errcode, rawCode } = error as { errcode?: unknown; rawCode?: unknown };
  // If libsql could not open a file, the code is only in the text.
  const { message } = error;
  const code =
    errcode ??
    rawCode ??
    /^ConnectionFailed\(.*: (\d+)"\)$/s.exec(message)?.[1] ??
    codesByText[message.split(":", 1)[0] ?? ""];
  return code === undefined ? undefined : Number(code) & 0xff;
}
