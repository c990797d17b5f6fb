import { realpathSync } from "node:fs";
import {
  type ContainerRuntimeClient,
  GenericContainer,
  getContainerRuntimeClient,
  getReaper,
  ImageName,
  Wait,
} from "testcontainers";
import { composedService, type ComposedStore, composeFolder } from "./compose.ts";
import { patience } from "./patience.ts";

/** Lines of a container's log that an error shows. */
const shownLines = 30;

/** The engine that answers here; undefined if none does. */
export async function findEngine(): Promise<ContainerRuntimeClient | undefined> {
  return getContainerRuntimeClient().catch(() => undefined);
}

/** The registry URL of a store that `docker compose up` of this checkout has started; undefined while it is not healthy. */
export async function findComposed(
  engine: ContainerRuntimeClient,
  store: ComposedStore,
): Promise<{ readonly url: string | undefined } | undefined> {
  // The store is published on the loopback interface of the engine's machine.
  if (!["localhost", "127.0.0.1", "::1"].includes(engine.info.containerRuntime.host)) return undefined;
  const { port, url } = composedService(store);
  for (const { Labels: labels, Ports: ports, Status: status } of await engine.container.list()) {
    const isOfStore = labels["com.docker.compose.service"] === store;
    if (!isOfStore || !isSameFolder(labels["com.docker.compose.project.working_dir"], composeFolder)) continue;
    const published = ports.find(({ PrivatePort, PublicPort }) => PrivatePort === port && PublicPort !== undefined);
    const isHealthy = status.includes("(healthy)");
    return { url: isHealthy && published ? url(`${published.IP}:${published.PublicPort}`) : undefined };
  }
  return undefined;
}

function isSameFolder(one: string | undefined, other: string): boolean {
  try {
    return one !== undefined && realpathSync(one) === realpathSync(other);
  } catch {
    return false;
  }
}

/**
 * Lets the engine fetch an image, unless the engine has it, and start the program that ends containers whose test was killed. Rejects
 * with the error of the engine.
 */
export async function fetchImage(engine: ContainerRuntimeClient, image: string): Promise<void> {
  if (!(await hasImage(engine, image))) {
    process.stderr.write(`Docker fetches ${image}\n`);
    await engine.image.pull(ImageName.fromString(image));
    // A pull that breaks off resolves without an error.
    if (!(await hasImage(engine, image))) throw new Error("it broke off");
  }
  await getReaper(engine);
}

/** Whether the engine has an image. */
export function hasImage(engine: ContainerRuntimeClient, image: string): Promise<boolean> {
  return engine.image.exists(ImageName.fromString(image));
}

/** A store in a container of the test's own, as docker-compose.yml describes it, but without its volume. */
export async function startContainer(
  store: ComposedStore,
  image: string,
): Promise<{ readonly url: string; remove(): Promise<void> }> {
  const { port, environment = {}, command, healthCheck, url } = composedService(store);
  const log: string[] = [];
  const container = new GenericContainer(image)
    .withEnvironment(environment)
    .withExposedPorts(port)
    // Enough retries for any store: Oracle needs minutes.
    .withHealthCheck({ test: healthCheck, interval: 2000, timeout: 10_000, retries: 10_000 })
    .withWaitStrategy(Wait.forHealthCheck())
    .withStartupTimeout(patience)
    .withLogConsumer((stream) => stream.on("data", (line) => log.push(String(line).trimEnd())));
  if (command !== undefined) container.withCommand([...command]);
  const started = await container.start().catch((error: unknown) => {
    throw new Error(`${image} did not start: ${(error as Error).message}\n${log.slice(-shownLines).join("\n")}`);
  });
  return {
    url: url(`${started.getHost()}:${started.getMappedPort(port)}`),
    remove: async () => void (await started.stop()),
  };
}
