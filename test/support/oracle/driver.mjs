// An object shaped like the driver oracledb, as far as its dialect uses it, on a bridge to a database that knows Oracle's syntax
// (Bridge.java). Statements go there as they are, but for the way in which parameters are marked. It is as strict as the driver.
import { connect } from "node:net";
import { createInterface } from "node:readline";

const types = { STRING: 2001, NUMBER: 2010, BUFFER: 2006, DB_TYPE_BLOB: { name: "BLOB" }, OUT_FORMAT_ARRAY: 4001 };

/** What Oracle says where the other database says this, by SQLSTATE. */
const codes = {
  22001: 12899,
  22003: 1438,
  23505: 1,
  40001: 60,
  42501: 942,
  42504: 955,
  // What it makes of a subquery on a table that is not there.
  42581: 942,
};

class Connection {
  callTimeout = 0;
  #socket;
  #waiting = [];
  #last = Promise.resolve();

  constructor(socket) {
    this.#socket = socket;
    const lines = createInterface({ input: socket });
    lines.on("line", (line) => this.#waiting.shift()?.resolve(line));
    // Told by the socket's end.
    for (const one of [socket, lines]) one.on("error", () => undefined);
    socket.on("close", () => {
      for (const { reject } of this.#waiting.splice(0)) reject();
    });
  }

  execute(sql, parameters, options) {
    const answer = this.#last.then(() => this.#execute(sql, parameters, options));
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  /** As the driver, it waits for what is under way. */
  async close() {
    await this.#last;
    this.#socket.end();
  }

  async #execute(sql, parameters, { outFormat, fetchTypeHandler }) {
    if (outFormat !== types.OUT_FORMAT_ARRAY) throw new Error("rows are arrays here");
    const asked = new Set();
    const values = [];
    const bound = sql.replace(/'[^']*'|(?<![:\w]):([a-z_]+)/g, (text, name) => {
      if (name === undefined) return text;
      asked.add(name);
      if (parameters[name] === undefined) throw failure("NJS", 98, `no value for :${name}`);
      values.push(encoded(parameters[name]));
      return "?";
    });
    for (const name of Object.keys(parameters)) if (!asked.has(name)) throw failure("NJS", 97, `no :${name} in it`);
    const line = await this.#ask([encoded({ type: types.STRING, val: bound }), ...values].join(" "));
    const [outcome, ...fields] = line.split(" ");
    if (outcome === "error") {
      const [state, , message] = fields.map(decoded);
      throw failure("ORA", codes[state] ?? 600, `${message}\nhow it came to that`);
    }
    const [count, columns, ...rest] = fields;
    const names = rest.splice(0, Number(columns)).map(decoded);
    const metaData = names.map((column) => ({ name: column.slice(0, column.lastIndexOf(":")) }));
    const fetched = names.map((column) => {
      const blob = column.endsWith(":BLOB");
      return blob && fetchTypeHandler({ dbType: types.DB_TYPE_BLOB })?.type !== types.BUFFER ? () => ({}) : decoded;
    });
    if (names.length === 0) return { rowsAffected: Number(count) };
    const rows = [];
    for (let i = 0; i < rest.length; i += names.length) {
      rows.push(rest.slice(i, i + names.length).map((cell, column) => fetched[column](cell)));
    }
    return { rows, metaData };
  }

  #ask(line) {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed || !this.#socket.writable) return reject(broken());
      const waiting = { resolve, reject: () => reject(broken()) };
      if (this.callTimeout > 0) {
        const timer = setTimeout(() => reject(failure("NJS", 123, "call timeout exceeded")), this.callTimeout);
        waiting.resolve = (answer) => (clearTimeout(timer), resolve(answer));
        waiting.reject = () => (clearTimeout(timer), reject(broken()));
      }
      this.#waiting.push(waiting);
      this.#socket.write(`${line}\n`);
    });
  }
}

function encoded({ type, val }) {
  // To Oracle an empty text is none.
  if (val === null || val === "") return "-";
  if (type === types.NUMBER && typeof val === "number") return `n${val}`;
  if (type === types.STRING && typeof val === "string") return `s${Buffer.from(val).toString("base64")}`;
  if (type === types.BUFFER && Buffer.isBuffer(val)) return `b${val.toString("base64")}`;
  throw failure("NJS", 11, "encountered bind value and type mismatch");
}

function decoded(field) {
  const value = field.slice(1);
  if (field.startsWith("n")) return Number(value);
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
  return new Connection(socket.setNoDelay(true));
}

export const driver = { ...types, getConnection };
