import { execFile } from "node:child_process";
import { cpSync } from "node:fs";
import { connect } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { isProgram, ServerProcess, startOnFreePort, whyMissing } from "./servers.ts";
import type { Program } from "./store-server.ts";

const run = promisify(execFile);
const source = fileURLToPath(new URL("mongo", import.meta.url));

/** A server that speaks MongoDB's protocol, and keeps all data in memory. MongoDB itself is in no package index. */
export class MongoServer {
  readonly process: ServerProcess = new ServerProcess("mongo");
  readonly port: number;

  constructor(port: number) {
    this.port = port;
  }

  static start(): Promise<MongoServer> {
    return startOnFreePort((port) => new MongoServer(port));
  }

  url(): string {
    return `mongodb://127.0.0.1:${this.port}/test`;
  }

  async start(): Promise<void> {
    const { folder } = this.process;
    cpSync(source, folder, { recursive: true });
    const jars = join(folder, "jars");
    await run("mvn", ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${jars}`], { cwd: folder });
    const args = ["-cp", `${jars}/*`, join(folder, "Mongo.java"), String(this.port)];
    await this.process.start("java", args, async () => {
      const socket = connect(this.port, "127.0.0.1");
      await once(socket, "connect");
      socket.destroy();
      return true;
    });
  }

  remove(): Promise<void> {
    return this.process.remove();
  }
}

export const mongoProgram: Program<MongoServer> = {
  missing: whyMissing("MongoDB's protocol", () => isProgram("mvn") && isProgram("java"), "maven default-jdk-headless"),
  start: () => MongoServer.start(),
};
