// The real driver oracledb (its options, global settings, binds and conversion of rows), with a bridge to a database that knows Oracle's
// syntax (Bridge.java) in place of its network protocol. Statements go there unchanged, except for the marks of parameters.
import { connect } from "node:net";
import { createInterface } from "node:readline";
import oracledb from "oracledb/lib/oracledb.js";
import impl from "oracledb/lib/impl/index.js";

/** Oracle's error codes, by the SQLSTATE of the other database. */
const codes = {
  22001: 12899,
  22003: 1438,
  23505: 1,
  40001: 60,
  42501: 942,
  42504: 955,
  // The other database's code for a subquery on a missing table.
  42581: 942,
};

/** Types of columns, by their names in the other database. All other columns are texts. */
const types = { BLOB: oracledb.DB_TYPE_BLOB };
const numbers = /^(NUMERIC|DECIMAL|INTEGER|BIGINT|SMALLINT|DOUBLE)/;

/** What the other database does not know: settings of a session, which have no effect there. */
const setting = /\b(NLS_\w+) = '(\w+)'/g;

/** A statement that the other database writes differently. */
const tableLock = /^LOCK TABLE (\w+), (\w+) IN SHARE ROW EXCLUSIVE MODE$/;

/** The rows of a query, whose answer has arrived as a whole. */
class Rows extends impl.ResultSetImpl {
  #rows;

  constructor(options, columns, rows) {
    super();
    this.#rows = rows;
    this._setup(options, columns);
  }

  getRows(count) {
    const rows = this.#rows.splice(0, count);
    return rows.map((row) => row.map((cell, i) => this.#fetched(cell, this.metaData[i].fetchType)));
  }

  #fetched(cell, type) {
    const isBytes = cell instanceof Uint8Array;
    // If bytes are requested in their own type, they come as an object from which to read them.
    return isBytes && type === oracledb.DB_TYPE_BLOB ? { getLength: () => cell.length } : cell;
  }

  close() {
    this.#rows = [];
  }
}

class Bridged extends impl.ConnectionImpl {
  #callTimeout = 0;
  #settings = { NLS_COMP: "LINGUISTIC", NLS_SORT: "GERMAN_CI", NLS_CALENDAR: "PERSIAN" };
  #socket;
  #waiting = [];

  constructor(socket) {
    super();
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on("line", (line) => this.#waiting.shift()?.resolve(line));
    // The end of the socket reports it.
    for (const one of [socket, lines]) one.on("error", () => undefined);
    socket.on("close", () => {
      for (const { reject } of this.#waiting.splice(0)) reject();
    });
  }

  setCallTimeout(timeout) {
    this.#callTimeout = timeout;
  }

  getCallTimeout() {
    return this.#callTimeout;
  }

  close() {
    this.#socket.end();
  }

  async execute(sql, _count, binds, options) {
    if (sql.startsWith("ALTER SESSION SET ")) {
      for (const [, name, value] of sql.matchAll(setting)) this.#settings[name] = value;
      return { rowsAffected: 0 };
    }
    if (sql.endsWith("FROM nls_session_parameters")) {
      const columns = ["PARAMETER", "VALUE"].map((name) => ({ name, dbType: oracledb.DB_TYPE_VARCHAR }));
      return { resultSet: new Rows(options, columns, Object.entries(this.#settings)) };
    }
    const bound = new Map(binds.map(({ name, type, values }) => [name, encoded(type, values[0])]));
    const asked = new Set();
    const values = [];
    const known = sql.replace(tableLock, "LOCK TABLE $1 WRITE, $2 WRITE").replace(/^(DROP TABLE \w+) PURGE$/, "$1");
    const text = known.replace(/'[^']*'|(?<![:\w]):([a-z_]+)/g, (literal, name) => {
      if (name === undefined) return literal;
      asked.add(name);
      if (!bound.has(name)) throw failure("NJS", 98, `no value for :${name}`);
      values.push(bound.get(name));
      return "?";
    });
    for (const name of bound.keys()) if (!asked.has(name)) throw failure("NJS", 97, `no :${name} in it`);
    const line = await this.#ask([encoded(oracledb.STRING, text), ...values].join(" "));
    const [outcome, ...fields] = line.split(" ");
    if (outcome === "error") {
      const [state, , message] = fields.map(decoded);
      throw failure("ORA", codes[state] ?? 600, `${message}\nhow it came to that`);
    }
    const [count, columns, ...rest] = fields;
    if (Number(columns) === 0) {
      if (options.autoCommit) await this.#ask(encoded(oracledb.STRING, "COMMIT"));
      return { rowsAffected: Number(count) };
    }
    const metaData = rest.splice(0, Number(columns)).map((column) => {
      const [name, type] = decoded(column).split(":");
      const dbType = numbers.test(type) ? oracledb.DB_TYPE_NUMBER : (types[type] ?? oracledb.DB_TYPE_VARCHAR);
      return { name, dbType, nullable: true };
    });
    const rows = [];
    for (let i = 0; i < rest.length; i += metaData.length) rows.push(rest.slice(i, i + metaData.length).map(decoded));
    return { resultSet: new Rows(options, metaData, rows) };
  }

  #ask(line) {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed || !this.#socket.writable) return reject(broken());
      const waiting = { resolve, reject: () => reject(broken()) };
      if (this.#callTimeout > 0) {
        const timer = setTimeout(() => reject(failure("NJS", 123, "call timeout exceeded")), this.#callTimeout);
        waiting.resolve = (answer) => (clearTimeout(timer), resolve(answer));
        waiting.reject = () => (clearTimeout(timer), reject(broken()));
      }
      this.#waiting.push(waiting);
      this.#socket.write(`${line}\n`);
    });
  }
}

function encoded(type, value) {
  // To Oracle an empty text is null.
  if (value === null || value === undefined || value === "") return "-";
  if (type === oracledb.NUMBER && typeof value === "number") return `n${value}`;
  if (type === oracledb.STRING && typeof value === "string") return `s${Buffer.from(value).toString("base64")}`;
  if (type === oracledb.BUFFER && Buffer.isBuffer(value)) return `b${value.toString("base64")}`;
  throw failure("NJS", 11, "encountered bind value and type mismatch");
}

/** A cell in the form in which the protocol's layer passes it on, with numbers as texts. */
function decoded(field) {
  const value = field.slice(1);
  if (field.startsWith("n")) return value;
  if (field.startsWith("-")) return null;
  const bytes = Buffer.from(value, "base64");
  return field.startsWith("b") ? bytes : bytes.toString();
}

function failure(kind, number, message) {
  const code = `${kind}-${String(number).padStart(kind === "ORA" ? 5 : 3, "0")}`;
  return Object.assign(new Error(`${code}: ${message}`), { code, errorNum: kind === "ORA" ? number : undefined });
}

function broken() {
  return failure("NJS", 500, "connection to Oracle Database was closed or broken");
}

async function getConnection({ connectString }) {
  const [, host, port] = /\(HOST=([^)]+)\)\(PORT=(\d+)\).*\(SERVICE_NAME=ids\)/.exec(connectString);
  const socket = connect(Number(port), host);
  await new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", ({ message }) =>
      reject(failure("NJS", 503, `could not be established. (CONNECTION_ID=x)\n${message}`)),
    );
    socket.once("close", () => reject(broken()));
  });
  const connection = new oracledb.Connection();
  connection._impl = new Bridged(socket.setNoDelay(true));
  return connection;
}

const { BUFFER, DB_TYPE_BLOB, DB_TYPE_NUMBER, NUMBER, OUT_FORMAT_ARRAY, STRING } = oracledb;
export const driver = { BUFFER, DB_TYPE_BLOB, DB_TYPE_NUMBER, NUMBER, OUT_FORMAT_ARRAY, STRING, getConnection };
