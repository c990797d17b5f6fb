import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openSql } from "../support/sql.ts";

const folder = mkdtempSync(join(tmpdir(), "snowlease-tls-"));
const file = (name: string): string => join(folder, name);

/** A certificate that vouches for itself, for this machine's name and address. */
function certificate(name: string): void {
  execFileSync(
    "openssl",
    ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"].concat(
      ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
      ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)],
    ),
    { stdio: "ignore" },
  );
}

beforeAll(() => {
  certificate("server");
  chmodSync(folder, 0o755);
  chmodSync(file("server.key"), 0o640);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const kinds = [
  {
    name: "postgres",
    missing: postgresMissing,
    // A key of root's may be read by a group: that of whom the server runs as.
    start: () => {
      if (process.getuid?.() === 0) execFileSync("chgrp", ["postgres", file("server.key")]);
      return PostgresServer.start({ ssl: "on", ssl_cert_file: file("server.pem"), ssl_key_file: file("server.key") });
    },
    familiar: "?sslmode=verify-full&sslrootcert=",
    encrypted:
      "SELECT count(*)::int AS n FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE s.ssl AND a.application_name = 'snowlease'",
    /** Of those that are open now, not of all that there were. */
    isOpen: true,
  },
  {
    name: "mysql",
    missing: mariadbMissing,
    start: () => MariadbServer.start([`--ssl-cert=${file("server.pem")}`, `--ssl-key=${file("server.key")}`]),
    familiar: "?ssl-mode=VERIFY_IDENTITY&ssl-ca=",
    encrypted:
      "SELECT variable_value AS n FROM information_schema.global_status WHERE variable_name = 'Ssl_finished_accepts'",
    isOpen: false,
  },
];

describe.each(kinds)("TLS to $name", ({ missing, start, familiar, encrypted, isOpen }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: PostgresServer | MariadbServer;
    const open: Registry[] = [];

    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server.remove());
    afterEach(async () => {
      for (const registry of open.splice(0)) await registry.close();
    });

    async function opened(query: string): Promise<Registry> {
      const registry = await openSql(server.url(query), 1000);
      open.push(registry);
      return registry;
    }

    test("with a certificate that is trusted, also in the words of other programs", async () => {
      const count = async (): Promise<number> => Number((await server.query(encrypted))[0]?.["n"]);
      for (const query of ["?tls=true&tlsCa=", familiar]) {
        const before = await count();
        const registry = await opened(query + file("server.pem"));
        await registry.init({ namespace: "orders", layout: defaultLayout.fingerprint });
        // An idle connection soon closes.
        let seen = before;
        for (let tries = 0; tries < 100 && seen <= before; tries++) {
          await granted(registry, claimRequest());
          seen = await count();
        }
        expect(seen).toBeGreaterThan(before);
        await registry.close();
        while (isOpen && (await count()) > 0) await sleep(10);
      }
    });
  });
});
