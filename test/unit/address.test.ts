import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { encryptionOf } from "../../src/registries/encryption.ts";
import { parseAddress, pathAddress } from "../../src/registries/index.ts";
import type { StoreKind } from "../../src/registries/store-kind.ts";
import * as stores from "../../src/registries/stores.ts";
import { lentName } from "../../src/config/lent-lease.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { readRedisSettings } from "../../src/registries/redis/settings.ts";

function refusal(text: unknown): string {
  try {
    parseAddress(text as string);
  } catch (error) {
    if (isSnowleaseError(error, "CONFIG_INVALID")) return error.message;
    throw error;
  }
  throw new Error(`accepted ${String(text)}`);
}

describe("a registry URL", () => {
  it.each([
    ["sqlite:./snowlease.db", "./snowlease.db"],
    ["sqlite:snowlease.db", "snowlease.db"],
    ["sqlite:/var/lib/snowlease.db", "/var/lib/snowlease.db"],
    ["sqlite:///var/lib/snowlease/registry.db", "/var/lib/snowlease/registry.db"],
    ["SQLite:./a.db", "./a.db"],
    ["sqlite:./with space.db", "./with space.db"],
    ["sqlite:./a%20b%3Fc%23d%25.db", "./a b?c#d%.db"],
    ["sqlite:%7E/a.db", "~/a.db"],
    ["sqlite:./%C3%BCber.db?namespace=orders", "./über.db"],
    ["sqlite:./a@b.db", "./a@b.db"],
  ])("%s names a file", (text, path) => {
    expect(parseAddress(text)).toMatchObject({ kind: "sqlite", path });
  });

  it.each([
    ["unix:/run/snowlease.sock", "/run/snowlease.sock"],
    ["unix:///run/snowlease.sock?namespace=a", "/run/snowlease.sock"],
    ["unix:./s.sock", "./s.sock"],
  ])("%s names a socket", (text, path) => {
    expect(parseAddress(text)).toMatchObject({ kind: "unix", path });
  });

  it.each([
    ["http://a:7070", ["http://a:7070"]],
    ["https://a/", ["https://a"]],
    ["http://a:7070,http://b:7071", ["http://a:7070", "http://b:7071"]],
    ["http://a:7070,b:7070,https://c/prefix/", ["http://a:7070", "http://b:7070", "https://c/prefix"]],
    ["https://a,b", ["https://a", "https://b"]],
    ["http://[::1]:7070?window=2s", ["http://[::1]:7070"]],
  ])("%s names daemons", (text, urls) => {
    expect(parseAddress(text)).toMatchObject({ kind: "http", urls });
  });

  it("names this process's memory", () => {
    expect(parseAddress("memory:")).toEqual({ kind: "memory", text: "memory:", redacted: "memory:", parameters: {} });
  });

  it("has a query, decoded, that is no part of the address", () => {
    const address = parseAddress("sqlite:./a.db?namespace=orders&layout=timestamp%3A41&window=2s&empty=&x=a=b");
    expect(address.text).toBe("sqlite:./a.db");
    expect(address.parameters).toEqual({
      namespace: "orders",
      layout: "timestamp:41",
      window: "2s",
      empty: "",
      x: "a=b",
    });
  });

  it("keeps a parameter that is called like a property of every object", () => {
    expect(Object.entries(parseAddress("memory:?__proto__=1").parameters)).toEqual([["__proto__", "1"]]);
  });

  it("shows neither password nor token", () => {
    const address = parseAddress("http://ada:s3cret@a:1,http://t0ken@b:2,http://:s3cret@c/x");
    expect(address.redacted).toBe("http://ada:***@a:1,http://***@b:2,http://***@c/x");
    expect(address).toMatchObject({
      urls: ["http://ada:s3cret@a:1", "http://t0ken@b:2", "http://:s3cret@c/x"],
      text: "http://ada:s3cret@a:1,http://t0ken@b:2,http://:s3cret@c/x",
    });
  });

  it.each([
    ["redis://a", { servers: [{ host: "a", port: 6379 }], user: undefined, password: undefined, path: "" }],
    [
      "rediss://ada:s3%40c%2Fret@a:1/2",
      { servers: [{ host: "a", port: 1 }], user: "ada", password: "s3@c/ret", path: "2" },
    ],
    ["redis://:s3cret@[::1]:7", { servers: [{ host: "::1", port: 7 }], user: undefined, password: "s3cret" }],
    [
      "redis+sentinel://a,b:1,10.0.0.3/orders?wait=1",
      {
        servers: [
          { host: "a", port: 26_379 },
          { host: "b", port: 1 },
          { host: "10.0.0.3", port: 26_379 },
        ],
        path: "orders",
        settings: { wait: "1" },
        parameters: {},
      },
    ],
    [
      "redis+cluster://a:7000?namespace=x&beside=westid",
      { settings: { beside: "westid" }, parameters: { namespace: "x" } },
    ],
  ])("%s names servers", (text, parts) => {
    const [scheme] = text.split(":");
    expect(parseAddress(text)).toMatchObject({ kind: "redis", scheme, ...parts });
  });

  it.each([
    [
      "postgres://ada:s3cret@db/ids?poolSize=2&tls=true",
      {
        kind: "postgres",
        servers: [{ host: "db", port: 5432 }],
        path: "ids",
        settings: { poolSize: "2", tls: "true" },
      },
    ],
    [
      "mysql://ada@[::1]:3307/ids?namespace=x&tlsCa=ca.pem",
      {
        kind: "mysql",
        servers: [{ host: "::1", port: 3307 }],
        parameters: { namespace: "x" },
        settings: { tlsCa: "ca.pem" },
      },
    ],
    [
      "oracle://ada:s3cret@db/freepdb1.example.org?tls=true",
      {
        kind: "oracle",
        servers: [{ host: "db", port: 1521 }],
        user: "ada",
        password: "s3cret",
        path: "freepdb1.example.org",
        settings: { tls: "true" },
        redacted: "oracle://ada:***@db/freepdb1.example.org",
      },
    ],
  ])("%s names a database", (text, parts) => {
    expect(parseAddress(text)).toMatchObject(parts);
  });

  it.each([
    ["postgres://ada:p@%2Fvar%2Frun/ids", { servers: [{ host: "/var/run", port: 5432 }], path: "ids", user: "ada" }],
    ["postgres://%2Fvar%2Frun:5433/ids", { servers: [{ host: "/var/run", port: 5433 }] }],
    ["postgres://ada:p@/ids?host=/var/run", { servers: [{ host: "/var/run", port: 5432 }], parameters: {} }],
    ["postgres:///ids?host=/var/run&window=2s", { path: "ids", parameters: { window: "2s" } }],
    ["postgresql://localhost:5433/ids?host=%2Fvar%2Frun", { servers: [{ host: "/var/run", port: 5433 }] }],
    ["mysql://ada@%2Frun%2Fm.sock/ids", { servers: [{ host: "/run/m.sock", port: 0 }], path: "ids" }],
    ["mysql://localhost:3306/ids?socketPath=/run/m.sock", { servers: [{ host: "/run/m.sock", port: 0 }] }],
    ["mariadb:///ids?unix_socket=/run/m.sock", { servers: [{ host: "/run/m.sock", port: 0 }], settings: {} }],
    ["redis+unix:///run/r.sock", { servers: [{ host: "/run/r.sock", port: 0 }], path: "", user: undefined }],
    ["redis+unix://:p@%2Frun/r.sock?db=2", { servers: [{ host: "/run/r.sock", port: 0 }], password: "p" }],
  ])("%s names a socket of a server", (text, parts) => {
    const address = parseAddress(text);
    expect(address).toMatchObject(parts);
    // What is shown is a URL of the same socket.
    expect(parseAddress(address.redacted)).toMatchObject({
      servers: (parts as { servers?: object[] }).servers ?? [{}],
    });
    expect(address.redacted).not.toContain(":p@");
  });

  it.each([
    ["postgres://db1/ids?host=/var/run", "to name either a host or `host`"],
    ["postgres://db1/ids?host=db2", "to name a host before the path, and in `host` only the whole path of a socket"],
    ["postgres:///ids?host=./run", "only the whole path of a socket"],
    ["postgres:///ids", "or with the folder of its socket as %2FPATH in place of HOST:PORT"],
    ["mysql://%2Frun%2Fm.sock:1/ids", "%2FPATH/NAME with a socket"],
    ["mysql:///ids?socketPath=/a&unix_socket=/b", "to name one socket, not `socketPath` and `unix_socket`"],
    ["mysql://%2Fa%00/ids", "%2FPATH/NAME with a socket"],
    ["redis+unix:/run/r.sock", "redis+unix://USER:PASSWORD@/path/of/the/socket"],
    ["redis+unix://run/r.sock", "redis+unix://USER:PASSWORD@/path/of/the/socket"],
    ["etcd://%2Frun%2Fe.sock", "HOST:PORT"],
    ["zookeeper://%2Frun%2Fz.sock", "HOST:PORT"],
    ["oracle://%2Frun%2Fo.sock/ids", "HOST:PORT"],
  ])("%s names none", (text, rule) => {
    expect(refusal(text)).toContain(rule);
  });

  it("names an ensemble", () => {
    const address = parseAddress("zookeeper://ada:s3cret@a,b:2182,[::1]/services/ids?sessionTimeout=20s&window=1m");
    expect(address).toMatchObject({
      kind: "zookeeper",
      servers: [
        { host: "a", port: 2181 },
        { host: "b", port: 2182 },
        { host: "::1", port: 2181 },
      ],
      user: "ada",
      password: "s3cret",
      path: "services/ids",
      settings: { sessionTimeout: "20s" },
      parameters: { window: "1m" },
      redacted: "zookeeper://ada:***@a,b:2182,[::1]/services/ids",
    });
  });

  it.each([
    ["kubernetes:", undefined, {}],
    ["kubernetes://ids", "ids", {}],
    ["kubernetes://ids?context=prod&window=1m", "ids", { context: "prod" }],
  ])("%s names a namespace of Kubernetes", (text, place, settings) => {
    expect(parseAddress(text)).toMatchObject({ kind: "kubernetes", place, settings });
  });

  it.each([
    "kubernetes:ids",
    "kubernetes://",
    "kubernetes://a/b",
    "kubernetes://A",
    "kubernetes://-a",
    "kubernetes://a.b",
  ])("%s names none", (text) => {
    expect(refusal(text)).toMatch(/^Expected the registry URL to be `kubernetes:` or kubernetes:\/\/NAMESPACE/);
  });

  it("shows no password of a server", () => {
    const shown = ["redis://ada:s3cret@a:1/0", "redis://:s3cret@a", "redis://s3cret@a"].map(
      (t) => parseAddress(t).redacted,
    );
    expect(shown).toEqual(["redis://ada:***@a:1/0", "redis://:***@a", "redis://***@a"]);
  });

  it.each([
    [undefined, "to start with one of sqlite: memory:"],
    [7, "to start with"],
    ["", "to start with"],
    ["./registry.db", "to start with"],
    [" sqlite:a.db", "to start with"],
    ["ftp://host", "to start with"],
    ["sqlite:a.db ", "space at its end"],
    ["sqlite:a\nb.db", "control characters"],
    ["sqlite:a%00.db", "control characters"],
    ["sqlite:a.db,sqlite:b.db", "to have one path; a comma in its name is written %2C"],
    ["unix:/run/a.sock,unix:/run/b.sock", "to have one path"],
    ["sqlite:", "to have a path"],
    ["sqlite:?window=2s", "to have a path"],
    ["sqlite://var/lib/a.db", "no host"],
    ["sqlite:~/a.db", "`~`, which is not expanded"],
    ["sqlite:///~/a.db", "`~`, which is not expanded"],
    ["unix:~ada/s.sock", "`~`, which is not expanded"],
    ["sqlite::memory:", "use `memory:`"],
    ["sqlite:file:a.db", "written ./NAME"],
    ["sqlite:a.db#b", "no `#`"],
    ["sqlite:a%.db", "whole percent-encoded"],
    ["sqlite:a%ff.db", "whole percent-encoded"],
    ["memory:x", "just `memory:`"],
    ["memory://", "just `memory:`"],
    ["memory:?", "a query like"],
    ["memory:?window", "a query like"],
    ["memory:?=2s", "a query like"],
    ["memory:?window=2s&window=3s", "`window` (string) once"],
    ["memory:?window=%zz", "whole percent-encoded"],
    ["unix:", "to have a path"],
    [`unix:/${"x".repeat(107)}`, "at most 107 bytes"],
    ["redis:", "HOST:PORT"],
    ["redis://", "HOST:PORT"],
    ["redis://a:0", "HOST:PORT"],
    ["redis://a:65536", "HOST:PORT/NAME, with ports up to 65535"],
    ["redis://u:p@ss@a", "`@`, `/` and `:` of a user, password or name as %40"],
    ["redis://a b", "HOST:PORT"],
    ["etcd://a,,b", "HOST:PORT"],
    ["redis://u:p%zz@a", "whole percent-encoded"],
    ["http:", "an address like http://HOST:PORT"],
    ["http:a", "an address like http://HOST:PORT"],
    ["http://", "an address like http://HOST:PORT"],
    ["http:///a", "an address like http://HOST:PORT"],
    ["http://a:99999", "an address like http://HOST:PORT"],
    ["http://a:0", "an address like http://HOST:PORT"],
    ["http://a b", "an address like http://HOST:PORT"],
    ["http://a,,b", "an address like http://HOST:PORT"],
    ["http://a,", "an address like http://HOST:PORT"],
    ["http://a,ftp://b", "an address like http://HOST:PORT"],
  ])("is refused: %j", (text, rule) => {
    expect(refusal(text)).toContain(rule);
  });

  it.each([
    "http://ada:s3cret@host:99999",
    "http://ada:s3cret/x@host",
    "http://ada:s3cret?x@host:99999",
    "http://ada:s3cret#x@host",
    "http://ada:a@s3cret@host:99999",
    "http://ada:a,s3cret@host",
    "redis//:s3cret@host",
    "ada:s3cret@host",
    "http://a:99999?password=s3cret",
    "oracle:s3cret@host",
  ])("is refused without a word of its password: %s", (text) => {
    const message = refusal(text);
    expect(message).not.toContain("s3cret");
    expect(message).toContain("***");
  });

  const schemes = Object.values<StoreKind>(stores).flatMap((store) => Object.entries(store.schemes));

  it.each(schemes.filter(([, { insteadOfList }]) => insteadOfList !== undefined))(
    "of %s: names one server, and says what to write in place of a list",
    (scheme, { insteadOfList, list }) => {
      expect(list).toBeUndefined();
      for (const rest of ["h1,h2", "h1:1,h2:2/ids?window=2s", `h1,${scheme}://h2`, `h1/a,${scheme}://u:s3cret@h2/a`]) {
        const text = `${scheme}://ada:s3cret@${rest}`;
        // What looks like the path of the first server is one of no list.
        if (rest.includes("/a,")) expect(refusal(text)).not.toContain("s3cret");
        else expect(refusal(text)).toContain(`Expected the registry URL to name one server, because several would`);
      }
      const message = refusal(`${scheme}://ada:s3cret@h1,h2/ids`);
      expect(message).toContain(insteadOfList);
      expect(message).not.toContain("s3cret");
      expect(refusal(`${scheme}://h:0`)).toContain("USER:PASSWORD@HOST:PORT/NAME");
    },
  );

  it.each(schemes.filter(([, { list }]) => list !== undefined))(
    "of %s: may list addresses, and an error says what they have to be",
    (scheme, { list, insteadOfList }) => {
      expect(insteadOfList).toBeUndefined();
      const { urls = [], servers = urls } = parseAddress(`${scheme}://h1,h2`) as {
        urls?: string[];
        servers?: object[];
      };
      expect(servers).toHaveLength(2);
      expect(refusal(`${scheme}://h1,h2:0`)).toContain(`(${list})`);
    },
  );

  it("has a scheme that names servers in one of both ways, or names none", () => {
    const others = schemes.filter(([, { list, insteadOfList }]) => (list ?? insteadOfList) === undefined);
    expect(others.map(([scheme]) => scheme).toSorted()).toEqual([
      "kubernetes",
      "memory",
      "redis+unix",
      "sqlite",
      "unix",
    ]);
  });

  it.each([
    ["postgresql://db/ids", "postgres://db/ids"],
    ["PostgreSQL://db/ids", "postgres://db/ids"],
    ["mariadb://db/ids", "mysql://db/ids"],
    ["valkey://a/1", "redis://a/1"],
    ["valkeys://a", "rediss://a"],
    ["zk://a,b/ids", "zookeeper://a,b/ids"],
  ])("%s is the same as %s", (familiar, own) => {
    expect(parseAddress(familiar)).toEqual(parseAddress(own));
  });

  it.each([
    ["postgres://u:s3cret@db/ids?schema=app&tls=true", "postgres://u:***@db/ids?schema=app"],
    ["oracle://db/ids?schema=APP", "oracle://db/ids?schema=APP"],
    ["redis+unix:///run/r.sock?db=2&wait=1", "redis+unix:///run/r.sock?db=2"],
    ["redis://a/2?wait=1", "redis://a/2"],
  ])("%s is shown with what tells it from other registries", (text, shown) => {
    const { redacted } = parseAddress(text);
    expect(redacted).toBe(shown);
    // So a lease that is lent from one of them is not borrowed for another.
    expect(lentName(parseAddress(text))).toBe(shown);
  });

  it("of an unknown scheme shows that scheme, and guesses which one is meant", () => {
    expect(refusal("postgress://ada:s3cret@db/ids")).toMatch(
      /, perhaps postgres:, got `postgress:\/\/\*\*\*@db\/ids` /,
    );
    expect(refusal("mongodb://ada:s3cret@db/ids")).toMatch(/ zookeeper:, got `mongodb:\/\/\*\*\*@db\/ids` /);
  });

  it.each([
    ["localhost:6379", "redis://localhost:6379"],
    ["10.0.0.5:5432/app", "postgres://10.0.0.5:5432/app"],
    ["db:3306", "mysql://db:3306"],
    ["zk-1.example.org:2181", "zookeeper://zk-1.example.org:2181"],
    ["[::1]:2379", "etcd://[::1]:2379"],
    ["localhost:7070", "http://localhost:7070"],
    ["redis", "redis://HOST:6379"],
    ["Postgres//ada:s3cret@db", "postgres://HOST:5432"],
    ["http//localhost", "http://HOST:7070"],
    ["memory", "memory:"],
    ["./ids.db", "sqlite:./ids.db"],
    ["ids.sqlite3", "sqlite:ids.sqlite3"],
  ])("%s without a scheme is perhaps %s", (text, meant) => {
    const told = refusal(text);
    expect(told).toContain(`, perhaps ${meant}, got `);
    expect(told).not.toContain("s3cret");
  });

  it.each(["localhost:1234", "localhost", "ada:s3cret@localhost:6379", ":6379", "a b:6379"])(
    "%s is no guess",
    (text) => {
      expect(refusal(text)).toContain("to start with one of ");
      expect(refusal(text)).not.toContain("perhaps");
      expect(refusal(text)).not.toContain("s3cret");
    },
  );

  describe("with other programs' words about encryption", () => {
    it.each([
      ["postgres://db/ids?sslmode=verify-full&sslrootcert=ca.pem", { tls: "true", tlsCa: "ca.pem" }],
      ["postgres://db/ids?ssl=true&tls=true", { tls: "true" }],
      ["postgres://db/ids?sslmode=disable", { tls: "false" }],
      ["mysql://db/ids?ssl-mode=VERIFY_IDENTITY&ssl-ca=ca.pem", { tls: "true", tlsCa: "ca.pem" }],
      ["mysql://db/ids?useSSL=false", { tls: "false" }],
      ["redis://a?ssl=true&ssl_ca_certs=ca.pem", { tls: "true", tlsCa: "ca.pem" }],
      ["postgres://db/ids?sslcert=c.pem&sslkey=k.pem", { tlsCert: "c.pem", tlsKey: "k.pem" }],
      ["zookeeper://a?ssl=true&sslcert=c.pem&sslkey=k.pem", { tls: "true", tlsCert: "c.pem", tlsKey: "k.pem" }],
      ["etcds://a?sslcert=c.pem&sslkey=k.pem", { tlsCert: "c.pem", tlsKey: "k.pem" }],
    ])("takes what means the same: %s", (text, settings) => {
      expect(parseAddress(text)).toMatchObject({ settings, parameters: {} });
    });

    it.each([
      [
        "postgres://db/ids?sslmode=require",
        "`tls=true`",
        "in place of `sslmode` (require does not check who the server is)",
      ],
      ["postgres://db/ids?sslmode=prefer", "`tls=true`", "goes on without encryption"],
      ["mysql://db/ids?ssl_mode=VERIFY_CA", "`tls=true`", "does not check the server's name"],
      ["postgres://db/ids?channel_binding=require", "`tls=true`", "in place of `channel_binding`"],
      ["mysql://db/ids?useSSL=true", "`tls=true`", "in place of `useSSL`"],
      ["mysql://db/ids?verifyServerCertificate=true", "`tls=true`", "in place of `verifyServerCertificate`"],
      ["etcd://a?ssl=true", "etcds:", "in place of `ssl`"],
      ["http://a?sslmode=verify-full", "https:", "in place of `sslmode`"],
      ["postgres://db/ids?sslmode=disable&ssl=true", "`tls`", "`ssl` says another"],
    ])("refuses all else, and names ours: %s", (text, ours, why) => {
      expect(refusal(text)).toContain(ours);
      expect(refusal(text)).toContain(why);
    });

    it("leaves none of them out, whatever the store", () => {
      const words =
        "ssl sslmode ssl-mode useSSL requireSSL sslrootcert ssl_cert ssl_key sslcrl tlsInsecure verify".split(" ");
      for (const [scheme] of schemes.filter(([, { port }]) => port !== undefined)) {
        for (const word of words) {
          for (const value of ["true", "require", "x"]) {
            const text = `${scheme}://a/b?${word}=${value}`;
            let parameters: object = {};
            try {
              ({ parameters } = parseAddress(text));
            } catch (error) {
              expect(isSnowleaseError(error, "CONFIG_INVALID")).toBe(true);
            }
            expect(parameters, text).toEqual({});
          }
        }
      }
    });
  });

  describe("is as the table of ways to connect says", () => {
    const [, table = ""] =
      /^## Ways to connect\n[^|]*((?:\|.*\n)+)/m.exec(readFileSync("docs/registries.md", "utf8")) ?? [];
    const [ways = [], , ...rows] = table
      .trim()
      .split("\n")
      .map((line) =>
        line
          .split("|")
          .slice(1, -1)
          .map((cell) => cell.trim()),
      );
    const cells = rows.flatMap(([store = "", ...row]) =>
      row.map((cell, i) => [store, ways[i + 1] ?? "", cell] as const),
    );
    const urls = cells.flatMap(([store, way, cell]) =>
      Array.from(cell.matchAll(/`([^`]+)`/g), ([, url = ""]) => [store, way, url] as const),
    );
    /** How a way that a store does not have would look, on a URL of the store. */
    const wrong: Readonly<Record<string, (url: string) => string>> = {
      "a socket in the file system": (url) => url.replace("//h", "//%2FPATH").replace(/:$/, "://%2FPATH"),
      "several servers": (url) => url.replace("//h", "//h1,h2").replace(/:$/, "://a,b"),
      "a part of the store": (url) => (url.startsWith("http") ? `${url}?database=2` : `${url}/2`),
    };

    it("with a row for each store and a cell for each way", () => {
      const seen = new Set(urls.map(([, , url]) => url.split(":", 1)[0]));
      const remote = schemes.map(([scheme]) => scheme).filter((scheme) => !["memory", "sqlite"].includes(scheme));
      expect([...seen].toSorted()).toEqual(remote.toSorted());
      expect(new Set(rows.map((row) => row.length))).toEqual(new Set([ways.length]));
      expect(urls.length).toBeGreaterThan(50);
    });

    it.each(urls)("%s, %s: %s", async (_, __, url) => {
      const { parameters } = parseAddress(url);
      expect(Object.keys(parameters)).toEqual([]);
    });

    it.each(urls.filter(([store]) => store !== "Kubernetes"))(
      "%s, %s: whether a network sees what is sent to %s",
      async (_, way, url) => {
        const found = await encryptionOf(parseAddress(url), 1000);
        if (/^(?:TLS|an authority|a certificate)/.test(way)) expect(found).toEqual({ is: "encrypted" });
        else if (url.includes("%2F") || /unix:|=\//.test(url)) expect(found).toEqual({ is: "local" });
        else {
          const addresses = expect.arrayContaining([expect.stringContaining("h")]) as string[];
          expect(found).toMatchObject({ is: "plain", addresses });
          const [, remedy = ""] = /^`([^`]+)` in the registry URL$/.exec(String(Object(found).remedy)) ?? [];
          const remedied = remedy.endsWith(":")
            ? url.replaceAll(/^\w+:/g, remedy)
            : `${url}${url.includes("?") ? "&" : "?"}${remedy}`;
          expect(await encryptionOf(parseAddress(remedied), 1000)).toEqual({ is: "encrypted" });
        }
      },
    );

    it.each(cells.filter(([, , cell]) => cell.startsWith("no")))("%s has no way with %s", (store, way) => {
      const [, , url = "kubernetes:"] =
        urls.find(([name, , url]) => name === store && !/unix|kubernetes/.test(url)) ?? [];
      const text = wrong[way]?.(url.split("?", 1)[0] ?? "") ?? "";
      // What no store knows is refused by the options around it.
      let parameters: object = { refused: true };
      try {
        const address = parseAddress(text);
        if (address.kind === "redis") readRedisSettings(address);
        ({ parameters } = address);
      } catch (error) {
        expect(isSnowleaseError(error, "CONFIG_INVALID")).toBe(true);
      }
      expect(Object.keys(parameters), text).not.toEqual([]);
    });
  });

  it.each([
    ["redis://localhost", "local"],
    ["redis://127.8.9.10:1", "local"],
    ["postgres://[::1]/d", "local"],
    ["http://[::1]:7070", "local"],
    ["http://127.0.0.1:1,http://127.0.0.1:2", "local"],
    ["rediss://127.0.0.1", "local"],
    ["redis+sentinel://127.0.0.1,127.0.0.2/p", "plain"],
    ["redis+cluster://127.0.0.1", "plain"],
    ["redis+cluster://127.0.0.1?tls=true", "encrypted"],
    ["postgres://[0:0:0:0:0:0:0:1]/d", "local"],
    ["redis://[::ffff:127.0.0.1]", "local"],
    ["redis://LOCALHOST.", "local"],
    ["redis://[fe80::1]", "plain"],
    ["redis://128.0.0.1", "plain"],
    ["redis://localhost.example.org", "plain"],
    ["zookeeper://127.0.0.1,b", "plain"],
    ["https://a,http://b", "plain"],
    ["https://a,http://127.0.0.1", "encrypted"],
    ["postgres://h/d?sslmode=verify-full", "encrypted"],
    ["valkeys://h", "encrypted"],
    ["mysql://h/d?tls=false", "plain"],
    ["sqlite:/a.db", undefined],
    ["memory:", undefined],
  ])("%s is reached in a way that is %s", async (url, is) => {
    expect((await encryptionOf(parseAddress(url), 1000))?.is).toBe(is);
  });

  it("shows no password where it names what is reached without encryption", async () => {
    const found = await encryptionOf(parseAddress("http://:secret@a:1,https://b,http://u:secret@c"), 1000);
    expect(found).toMatchObject({ is: "plain", addresses: ["http://***@a:1", "http://u:***@c"] });
    const ofServers = await encryptionOf(parseAddress("etcd://u:secret@a:1,b"), 1000);
    expect(ofServers).toMatchObject({ is: "plain", addresses: ["a:1", "b:2379"] });
  });

  it("is made of a path without encoding", () => {
    const address = pathAddress("sqlite", "/var/a?b#c%d.db");
    expect(address).toMatchObject({ kind: "sqlite", path: "/var/a?b#c%d.db", text: "sqlite:/var/a%3Fb%23c%25d.db" });
    expect(parseAddress(address.text)).toEqual(address);
    expect(pathAddress("sqlite", "a,b:c.db")).toMatchObject({ path: "a,b:c.db" });
  });

  it("may begin with several slashes, which are one to the system", () => {
    expect(pathAddress("unix", "//run/snowlease.sock")).toMatchObject({ kind: "unix", path: "/run/snowlease.sock" });
  });
});
