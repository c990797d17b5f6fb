import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

/** The stores of docker-compose.yml, each with the registry URL of its service. */
const urls = {
  redis: (at: string) => `redis://${at}`,
  postgres: (at: string) => `postgres://snowlease:snowlease@${at}/snowlease`,
  mysql: (at: string) => `mysql://snowlease:snowlease@${at}/snowlease`,
  mariadb: (at: string) => `mysql://snowlease:snowlease@${at}/snowlease`,
  oracle: (at: string) => `oracle://snowlease:snowlease@${at}/FREEPDB1`,
  zookeeper: (at: string) => `zookeeper://${at}`,
  etcd: (at: string) => `etcd://${at}`,
};

/** A store that docker-compose.yml starts. */
export type ComposedStore = keyof typeof urls;

/** The folder of docker-compose.yml. */
export const composeFolder: string = join(import.meta.dirname, "../..");

const { services } = parse(readFileSync(join(composeFolder, "docker-compose.yml"), "utf8")) as {
  readonly services: Readonly<Record<ComposedStore, ServiceText>>;
};

/** The command that succeeds if the store answers. */
type HealthCheck = ["CMD", ...string[]] | ["CMD-SHELL", string];

interface ServiceText {
  /** The image with its digest. */
  readonly image: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  /** `127.0.0.1::PORT`. */
  readonly ports: readonly [string];
  readonly healthcheck: { readonly test: HealthCheck };
}

/** What docker-compose.yml says about a store. */
export interface ComposedService extends Pick<ServiceText, "image" | "environment" | "command"> {
  /** The image without its digest. */
  readonly tag: string;
  /** The port in the container. */
  readonly port: number;
  readonly healthCheck: HealthCheck;
  /** The registry URL of a store that is reached at `HOST:PORT`. */
  url(at: string): string;
}

/** Reads what docker-compose.yml says about a store. */
export function composedService(store: ComposedStore): ComposedService {
  const { image, environment, command, ports, healthcheck } = services[store];
  const [tag = ""] = image.split("@");
  const port = Number(ports[0].split(":").at(-1));
  return {
    image,
    tag,
    port,
    healthCheck: healthcheck.test,
    url: urls[store],
    ...(environment && { environment }),
    ...(command && { command }),
  };
}
