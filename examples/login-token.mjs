// A login token in place of the user's ID. What the browser gets tells nothing about the user, and cannot be guessed: an ID, under
// which the session is kept, and 128 random bits, of which only a hash is kept. The ID carries the time of the login, so that old
// sessions are found by the primary key alone: no column for the time, no index on it, no second clock to agree with.
//
//   node examples/login-token.mjs
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { pathToFileURL } from "node:url";
import Database from "libsql";
import { encodings, snowlease } from "snowlease";

const text = encodings.base62;

/** Sessions in a table of SQLite; any database that keeps 64-bit keys in order will do. */
export class Sessions {
  #ids;
  #db;

  /** @param ids a generator; `path`: where the table is kept. */
  constructor(ids, path = ":memory:") {
    this.#ids = ids;
    this.#db = new Database(path);
    this.#db.defaultSafeIntegers(true);
    this.#db.exec(
      "CREATE TABLE IF NOT EXISTS session (id INTEGER PRIMARY KEY, hash BLOB NOT NULL, user TEXT NOT NULL) STRICT",
    );
  }

  /** Begins a session; returns its token. */
  async login(user) {
    const id = await this.#ids.nextAsync();
    const secret = randomBytes(16);
    this.#db.prepare("INSERT INTO session (id, hash, user) VALUES (?, ?, ?)").run(id, hashOf(secret), user);
    return `${text.encode(id)}.${secret.toString("base64url")}`;
  }

  /** Whose token it is; undefined for one that is over, was never given out, or is none at all. */
  user(token) {
    const session = this.#find(token);
    return session?.user;
  }

  logout(token) {
    const session = this.#find(token);
    if (session !== undefined) this.#db.prepare("DELETE FROM session WHERE id = ?").run(session.id);
  }

  /** Ends the sessions that began at least so many ms ago; returns how many there were. */
  cleanUp(maxAge) {
    const { layout, clock } = this.#ids.lease;
    const { last } = layout.rangeOf(layout.epoch, clock.now() - maxAge);
    return this.#db.prepare("DELETE FROM session WHERE id <= ?").run(last).changes;
  }

  #find(token) {
    const [, id, secret] = /^([0-9a-zA-Z]{1,11})\.([\w-]{22})$/.exec(token) ?? [];
    if (id === undefined) return undefined;
    try {
      const session = this.#db.prepare("SELECT id, hash, user FROM session WHERE id = ?").get(text.decode(id));
      return session !== undefined && timingSafeEqual(session.hash, hashOf(Buffer.from(secret, "base64url")))
        ? session
        : undefined;
    } catch (error) {
      // A number that no ID is.
      if (error.code === "CONFIG_INVALID") return undefined;
      throw error;
    }
  }
}

function hashOf(secret) {
  return createHash("sha256").update(secret).digest();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const ids = await snowlease();
  const sessions = new Sessions(ids);
  const token = await sessions.login("ada");
  console.log(`the browser keeps  ${token}`);
  console.log(`the server knows   ${sessions.user(token)}`);
  const forged = `${token.split(".")[0]}.${randomBytes(16).toString("base64url")}`;
  console.log(`a forged one is    ${sessions.user(forged) ?? "nobody"}'s`);
  await new Promise((resolve) => setTimeout(resolve, 20));
  console.log(`too old            ${sessions.cleanUp(10)} session`);
  console.log(`after the clean-up ${sessions.user(token) ?? "nobody"}`);
  await ids.close();
}
