import { copied } from "./parser.ts";
import {
  bulk,
  idReplies,
  idReply,
  integer,
  nothing,
  ok,
  type ProtocolVersion,
  reply,
  type ReplyValue,
} from "./replies.ts";
import { countOf, RespError, type Session } from "./session.ts";

/** One command of the protocol. */
interface Command {
  /** The fewest arguments that it takes, without its name. */
  readonly least: number;
  readonly most: number;
  readonly summary: string;
  /** The client may send it before it sends a token. */
  readonly open?: true;
  /** The connection ends after its answer. */
  readonly ends?: true;
  /** 1: its first argument is a namespace. -1: each argument is one. */
  readonly key?: 1 | -1;
  readonly run: (session: Session, args: readonly string[]) => string | Promise<string>;
}

/** The version of Redis whose answers these commands give. Libraries choose their requests by it. */
const redisVersion = "7.2.0";
/** The name of a client or of its library. */
const namePattern = /^[\x21-\x7e]{0,128}$/;
const any = Infinity;

const table: Readonly<Record<string, Command>> = {
  GET: {
    least: 1,
    most: 1,
    key: 1,
    summary: "Makes an ID of a namespace.",
    run: (session, [namespace = ""]) => session.answerIds(namespace, 1),
  },
  MGET: {
    least: 1,
    most: any,
    key: -1,
    summary: "Makes an ID for each namespace: all of them, or an error.",
    async run(session, names) {
      const counts = new Map<string, number>();
      for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
      for (const name of counts.keys()) session.admit(name);
      const made = new Map<string, Iterator<bigint>>();
      for (const [name, count] of counts) made.set(name, (await session.take(name, count)).values());
      return `*${names.length}\r\n${names.map((name) => idReply(made.get(name)?.next().value)).join("")}`;
    },
  },
  "SNOWLEASE.IDS": {
    least: 2,
    most: 2,
    key: 1,
    summary: "Makes up to 100000 IDs of a namespace: all of them, or an error.",
    async run(session, [namespace = "", count = ""]) {
      return `*${countOf(count)}\r\n${idReplies(await session.take(namespace, countOf(count)))}`;
    },
  },
  INCR: {
    least: 1,
    most: 1,
    key: 1,
    summary: "Makes an ID of a namespace as an integer.",
    run: (session, [namespace = ""]) => session.answerInteger(namespace),
  },
  PING: {
    least: 0,
    most: 1,
    summary: "Answers PONG, or what came.",
    run: (_, [text]) => (text === undefined ? "+PONG\r\n" : bulk(text)),
  },
  ECHO: { least: 1, most: 1, summary: "Answers what came.", run: (_, [text = ""]) => bulk(text) },
  AUTH: {
    least: 1,
    most: 2,
    open: true,
    summary: "Shows a token: the password, whatever the user.",
    run(session, args) {
      session.authenticate(args.at(-1) ?? "");
      return ok;
    },
  },
  HELLO: { least: 0, most: 6, open: true, summary: "Chooses the version of the protocol.", run: hello },
  SELECT: {
    least: 1,
    most: 1,
    summary: "Chooses a database: there is only 0.",
    run(_, [index]) {
      if (index === "0") return ok;
      throw new RespError("ERR", "DB index is out of range: there is only 0; name the namespace as the key.");
    },
  },
  CLIENT: { least: 1, most: 3, summary: "Names this connection, or tells about it.", run: client },
  INFO: {
    least: 0,
    most: any,
    summary: "Tells about this server.",
    run: ({ context: { version } }) =>
      bulk(
        [
          "# Server",
          `redis_version:${redisVersion}`,
          "redis_mode:standalone",
          "server_name:snowlease",
          `snowlease_version:${version}`,
          "# Persistence",
          "loading:0",
          "# Replication",
          "role:master",
          "",
        ].join("\r\n"),
      ),
  },
  COMMAND: { least: 0, most: any, summary: "Tells about the commands.", run: commandTable },
  CONFIG: {
    least: 1,
    most: any,
    summary: "Has no settings to tell.",
    run({ version }, [sub = ""]) {
      if (sub.toUpperCase() === "GET") return reply({}, version);
      throw unknownSubcommand("CONFIG", sub);
    },
  },
  QUIT: { least: 0, most: any, open: true, ends: true, summary: "Ends the connection.", run: () => ok },
  RESET: {
    least: 0,
    most: 0,
    open: true,
    summary: "Begins anew, as after connecting.",
    run(session) {
      session.reset();
      return "+RESET\r\n";
    },
  },
};

const commands: ReadonlyMap<string, Command> = new Map(Object.entries(table));
/** Protocol version -> answer of COMMAND. `docs` has the answers of COMMAND DOCS. */
const tables: Partial<Record<ProtocolVersion, string>> = {};
const docs: Partial<Record<ProtocolVersion, string>> = {};

/** The command of a request. @throws RespError */
export function commandOf(session: Session, [name = "", ...args]: readonly string[]): Command {
  const command = commands.get(name) ?? commands.get(name.toUpperCase());
  if (command?.open !== true && !session.isKnown) {
    throw new RespError("NOAUTH", "Authentication required: send AUTH with a token of this daemon as the password.");
  }
  if (command === undefined) {
    throw new RespError(
      "ERR",
      `unknown command '${short(name)}': this is Snowlease; it has ${[...commands.keys()].join(", ")}.`,
    );
  }
  if (args.length >= command.least && args.length <= command.most) return command;
  throw new RespError("ERR", `wrong number of arguments for '${short(name.toLowerCase())}' command`);
}

function hello(session: Session, [asked, ...args]: readonly string[]): string {
  if (asked !== undefined && asked !== "2" && asked !== "3") {
    throw new RespError("NOPROTO", "unsupported protocol version: this server has 2 and 3.");
  }
  const rest = [...args];
  let [token, name]: (string | undefined)[] = [];
  while (rest.length > 0) {
    const option = rest.shift()?.toUpperCase();
    if (option === "AUTH" && rest.length >= 2) [, token] = rest.splice(0, 2);
    else if (option === "SETNAME" && rest.length >= 1) name = checkedName(rest.shift());
    else throw new RespError("ERR", "Syntax error in HELLO: it takes 2 or 3, AUTH USER TOKEN, and SETNAME NAME.");
  }
  if (token !== undefined) session.authenticate(token);
  if (!session.isKnown) {
    throw new RespError("NOAUTH", "HELLO must be called with a token: HELLO 3 AUTH default TOKEN.");
  }
  if (name !== undefined) session.name = name;
  if (asked !== undefined) session.version = asked === "3" ? 3 : 2;
  const { version, id, context } = session;
  const facts = { server: "snowlease", version: context.version, proto: version, id };
  return reply({ ...facts, mode: "standalone", role: "master", modules: [] }, version);
}

function client(session: Session, [sub = "", ...args]: readonly string[]): string {
  const [first = "", second = ""] = args;
  switch (`${sub.toUpperCase()} ${args.length}`) {
    case "SETNAME 1":
      session.name = checkedName(first);
      return ok;
    case "GETNAME 0":
      return session.name === "" ? nothing(session.version) : bulk(session.name);
    case "SETINFO 2":
      if (first.toUpperCase() === "LIB-NAME") session.library = checkedName(second);
      else if (first.toUpperCase() === "LIB-VER") session.libraryVersion = checkedName(second);
      else throw new RespError("ERR", "Unrecognized option of CLIENT SETINFO: it takes LIB-NAME and LIB-VER.");
      return ok;
    case "ID 0":
      return integer(session.id);
    case "INFO 0": {
      const { id, peer, name, version, library, libraryVersion } = session;
      const address = peer.address ?? "unix";
      return bulk(
        `id=${id} addr=${address} name=${name} db=0 resp=${version} lib-name=${library} lib-ver=${libraryVersion}\n`,
      );
    }
    default:
      throw unknownSubcommand("CLIENT", sub);
  }
}

function commandTable({ version }: Session, [sub = "", ...names]: readonly string[]): string {
  const entries = [...commands];
  switch (sub.toUpperCase()) {
    case "":
      // Cached, because the answer is many times as long as the request.
      return (tables[version] ??= reply(entries.map(described), version));
    case "COUNT":
      return integer(entries.length);
    case "DOCS": {
      if (names.length === 0) return (docs[version] ??= reply(Object.fromEntries(entries.map(documented)), version));
      const asked = new Set(names.map((name) => name.toUpperCase()));
      return reply(Object.fromEntries(entries.filter(([name]) => asked.has(name)).map(documented)), version);
    }
    default:
      throw unknownSubcommand("COMMAND", sub);
  }
}

function documented([name, { summary }]: readonly [string, Command]): [string, ReplyValue] {
  return [name.toLowerCase(), { summary }];
}

/** A command in the format of Redis: name, arity (negative: at least), flags, first and last key, step. */
function described([name, { least, most, key }]: readonly [string, Command]): ReplyValue {
  const arity = least === most ? least + 1 : -(least + 1);
  const keys = key === undefined ? [0, 0, 0] : [1, key, 1];
  return [name.toLowerCase(), arity, ["fast"], ...keys];
}

function checkedName(name = ""): string {
  if (namePattern.test(name)) return copied(name);
  throw new RespError("ERR", "Expected a name of at most 128 visible ASCII characters without spaces.");
}

function unknownSubcommand(name: string, sub: string): RespError {
  return new RespError("ERR", `unknown subcommand '${short(sub)}' of ${name}, or wrong number of its arguments.`);
}

/** A few characters of a name from a client, for a message. They are few because a client may send a token instead of a name. */
function short(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?").slice(0, 24);
}
