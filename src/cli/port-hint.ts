import type { Config } from "../config/config.ts";
import { SnowleaseError } from "../id/errors.ts";
import type { Invocation } from "./command.ts";
import { addressOf, registryConfig } from "./settings.ts";

/**
 * An error of a command, with what to write in place of the registry's scheme where its port speaks another protocol. Many servers just hang
 * up on a request in another protocol, so the port is asked once more. Only on a command line, where nothing waits for the answer.
 */
export async function withPortHint(error: SnowleaseError, invocation: Invocation): Promise<SnowleaseError> {
  const config = await registryConfig(invocation).catch(() => undefined);
  const message = config === undefined ? error.message : await withHint(error.message, config);
  return message === error.message ? error : new SnowleaseError(error.code, message, error.details, { cause: error });
}

/** A message about a registry that did not answer. */
export async function withHint(message: string, config: Config): Promise<string> {
  if (message.includes("in place of")) return message;
  const { adviceOnScheme, askPort } = await import("../registries/port-speech.ts");
  const looks = portsOf(config).map(async ({ host, port, scheme }) => {
    const advice = adviceOnScheme(await askPort(host, port, config.operationTimeout), scheme);
    return advice && `${message} A look at ${host}:${port} shows that ${advice}.`;
  });
  return (await Promise.all(looks)).find((found) => found !== undefined) ?? message;
}

interface RegistryPort {
  readonly host: string;
  readonly port: number;
  readonly scheme: string;
}

function portsOf(config: Config): readonly RegistryPort[] {
  const address = addressOf(config);
  if ("servers" in address) {
    // It counts a look as a failed connection, and shuts a host out after 100 of them (`max_connect_errors`).
    if (address.kind === "mysql") return [];
    const scheme = address.scheme === "redis" && address.parameters["tls"] === "true" ? "rediss" : address.scheme;
    return address.servers.map((server) => ({ ...server, scheme }));
  }
  if (!("urls" in address)) return [];
  return address.urls.map((url) => {
    const { hostname, port, protocol } = new URL(url);
    const scheme = protocol.slice(0, -1);
    const usual = scheme === "https" ? 443 : 80;
    return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? usual : Number(port), scheme };
  });
}
