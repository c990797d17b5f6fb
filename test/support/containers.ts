import { setTimeout as sleep } from "node:timers/promises";
import type { StartedTestContainer } from "testcontainers";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { freePort } from "./servers.ts";

/** The program in a container, and the URL of its registry. */
interface Contained {
  readonly image: string;
  readonly port: number;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  url(place: string): string;
}

/** The time until a registry answers once its container runs, ms: Oracle takes minutes. */
const patience = 300_000;

const login = "snowlease:snowlease";

/** Each has its exact version. Every acknowledged write is on disk. */
export const contained = {
  redis: {
    image: "redis:7.4.2",
    port: 6379,
    command: ["redis-server", "--protected-mode", "no", "--appendonly", "yes", "--appendfsync", "always", "--save", ""],
    url: (place) => `redis://${place}`,
  },
  postgres: {
    image: "postgres:17.4",
    port: 5432,
    environment: { POSTGRES_USER: "snowlease", POSTGRES_PASSWORD: "snowlease", POSTGRES_DB: "snowlease" },
    url: (place) => `postgres://${login}@${place}/snowlease`,
  },
  mysql: {
    image: "mysql:8.4.5",
    port: 3306,
    environment: {
      MYSQL_USER: "snowlease",
      MYSQL_PASSWORD: "snowlease",
      MYSQL_DATABASE: "snowlease",
      MYSQL_RANDOM_ROOT_PASSWORD: "yes",
    },
    url: (place) => `mysql://${login}@${place}/snowlease`,
  },
  mariadb: {
    image: "mariadb:11.4.5",
    port: 3306,
    environment: {
      MARIADB_USER: "snowlease",
      MARIADB_PASSWORD: "snowlease",
      MARIADB_DATABASE: "snowlease",
      MARIADB_RANDOM_ROOT_PASSWORD: "yes",
    },
    url: (place) => `mysql://${login}@${place}/snowlease`,
  },
  oracle: {
    image: "gvenzl/oracle-free:23.9-slim-faststart",
    port: 1521,
    environment: { ORACLE_RANDOM_PASSWORD: "yes", APP_USER: "snowlease", APP_USER_PASSWORD: "snowlease" },
    url: (place) => `oracle://${login}@${place}/FREEPDB1`,
  },
  zookeeper: {
    image: "zookeeper:3.9.3",
    port: 2181,
    url: (place) => `zookeeper://${place}`,
  },
  etcd: {
    image: "quay.io/coreos/etcd:v3.5.21",
    port: 2379,
    command: [
      "etcd",
      "--data-dir=/data",
      "--listen-client-urls=http://0.0.0.0:2379",
      "--advertise-client-urls=http://127.0.0.1:2379",
    ],
    url: (place) => `etcd://${place}`,
  },
} as const satisfies Readonly<Record<string, Contained>>;

/** A server of the test's own in a container: testcontainers finds the engine, and fetches the image. */
export class Container {
  readonly #what: Contained;
  readonly #container: StartedTestContainer;

  private constructor(what: Contained, container: StartedTestContainer) {
    this.#what = what;
    this.#container = container;
  }

  /** Starts one, and waits until its registry answers. */
  static async start(store: keyof typeof contained): Promise<Container> {
    const { GenericContainer, Wait } = await import("testcontainers");
    const what: Contained = contained[store];
    const { image, port, environment = {}, command = [] } = what;
    const container = await new GenericContainer(image)
      // An engine would choose another port at a restart, where no holder finds the server.
      .withExposedPorts({ container: port, host: await freePort() })
      .withEnvironment(environment)
      .withCommand([...command])
      // A server that listens or logs that it is ready may only prepare the data.
      .withWaitStrategy(Wait.forAll([]))
      .start();
    const started = new Container(what, container);
    try {
      await started.#answers();
    } catch (error) {
      await started.remove();
      throw error;
    }
    return started;
  }

  url(): string {
    return this.#what.url(`${this.#container.getHost()}:${this.#container.getMappedPort(this.#what.port)}`);
  }

  /** Kills all of it with -9. */
  async kill(): Promise<void> {
    await (await this.#handle()).kill();
  }

  /** Starts it again, with its saved data. */
  async start(): Promise<void> {
    await this.#container.restart();
    await this.#answers();
  }

  async remove(): Promise<void> {
    await this.#container.stop();
  }

  async #answers(): Promise<void> {
    const address = parseAddress(this.url());
    for (const end = performance.now() + patience; ;) {
      try {
        const registry = await openRegistry(address, { operationTimeout: 2000 });
        try {
          await registry.describe("orders");
          return;
        } finally {
          await registry.close();
        }
      } catch (error) {
        const { Running } = (await (await this.#handle()).inspect()).State;
        if (!Running || performance.now() > end) {
          throw new Error(`${this.#what.image} does not answer: ${await this.#log()}`, { cause: error });
        }
      }
      await sleep(50);
    }
  }

  async #handle(): Promise<ReturnType<typeof client.container.getById>> {
    const { getContainerRuntimeClient } = await import("testcontainers");
    const client = await getContainerRuntimeClient();
    return client.container.getById(this.#container.getId());
  }

  async #log(): Promise<string> {
    const pieces: string[] = [];
    for await (const piece of await this.#container.logs({ tail: 20 })) pieces.push(String(piece));
    return pieces.join("").trim();
  }
}
