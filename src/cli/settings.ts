import { whileWaiting } from "./terminal/progress.ts";
import type { Config } from "../config/config.ts";
import type { RegistryAddress } from "../registries/index.ts";
import { configInvalid, shown, SnowleaseError } from "../id/errors.ts";
import { shellWord } from "../id/shell-word.ts";
import { Layout } from "../id/layout.ts";
import type { Registry } from "../rule/registry.ts";
import { checkLayout, type NamespaceInfo } from "../rule/limits.ts";
import type { LazyRegistry } from "../registries/lazy.ts";
import type { Invocation } from "./command.ts";

/** The options of a command that inspects a registry, or ends a claim in it. */
export const registrySettings: readonly string[] = ["registry", "namespace", "operationTimeout", "token", "config"];

/** For `--help` of operators' commands that write. */
export const namedRegistryRule: string =
  "Needs a registry that a flag, a variable or a config file names. There is no default.";

/** The options of this command line, of the environment and of the config file. @throws SnowleaseError CONFIG_INVALID */
export async function claimConfig(
  { flags }: Invocation,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Config> {
  const { resolveConfig } = await import("../config/config.ts");
  return resolveConfig({ flags: Object.fromEntries(flags), env, cwd: process.cwd() });
}

/** The same for a command about a registry itself. Inside `snowlease exec`, it does not use the lease that `exec` lends. */
export async function registryConfig(invocation: Invocation): Promise<Config> {
  const { withoutLent } = await import("../config/lent-lease.ts");
  return claimConfig(invocation, withoutLent(process.env));
}

/**
 * The same for an operator's command that writes. The default registry is a file in the home folder. It is right for one program alone on
 * its host, but an operator rarely means it.
 * @throws SnowleaseError CONFIG_INVALID if no option names a registry.
 */
export async function namedRegistryConfig(invocation: Invocation): Promise<Config> {
  const config = await registryConfig(invocation);
  if (config.registryFrom === "named") return config;
  const { redacted } = addressOf(config);
  throw configInvalid(
    `Expected a named registry, got none: the default would be ${redacted}, a file that no other host or user sees; name the registry of your programs with \`--registry URL\`, SNOWLEASE_REGISTRY or \`registry\` in a config file (for that file: \`--registry ${redacted}\`).`,
  );
}

/**
 * The flag by which a shown command names the registry of this command: empty if that command finds it by itself, undefined if its URL
 * has parts that must not be shown, such as a password.
 */
export function registryFlag({ flags }: Invocation, config: Config): string | undefined {
  const { level } = config.sources.registry ?? {};
  if (level === "environment") return "";
  const file = flags.get("config");
  if (level === "file") return file === undefined ? "" : `--config ${shellWord(String(file))}`;
  const { redacted } = addressOf(config);
  return (flags.get("registry") ?? redacted) === redacted ? `--registry ${shellWord(redacted)}` : undefined;
}

/**
 * The namespaces that the operands name, otherwise the namespace of the option.
 * @throws SnowleaseError CONFIG_INVALID for an invalid name, and if both operands and a flag name one.
 */
export async function namespacesOf(
  names: readonly string[],
  { namespace, sources }: Config,
): Promise<readonly string[]> {
  if (names.length === 0) return [namespace];
  if (sources.namespace?.text === "--namespace") {
    throw configInvalid(
      `Expected namespaces either as arguments or with \`--namespace\`, got both (${shown(names[0])} and ${shown(namespace)}); leave one out.`,
    );
  }
  const { readOption } = await import("../config/options.ts");
  return names.map((name) => readOption("namespace", name, "the argument"));
}

/** The address of the registry. On a command line it is always a URL. */
export function addressOf({ registry }: Config): RegistryAddress {
  return registry as RegistryAddress;
}

/** The registry. It opens at the first call. */
export async function deferConfigured(config: Config): Promise<LazyRegistry> {
  const { lazyRegistry } = await import("../registries/lazy.ts");
  return lazyRegistry(addressOf(config), { operationTimeout: config.operationTimeout });
}

export async function openConfigured(config: Config): Promise<Registry> {
  const { openRegistry } = await import("../registries/index.ts");
  return openRegistry(addressOf(config), { operationTimeout: config.operationTimeout });
}

/**
 * Opens the registry for a look at it, and closes it afterwards.
 * @throws SnowleaseError NOT_FOUND for an embedded registry that does not exist. Opening it would create it.
 */
export async function withRegistry<Result>(
  config: Config,
  use: (registry: Registry) => Promise<Result>,
): Promise<Result> {
  const address = addressOf(config);
  const { isEmpty } = await import("../registries/index.ts");
  if (isEmpty(address)) {
    const advice =
      config.registryFrom === "named"
        ? "make it with `snowlease init` or a first claim, or name another one with `--registry`"
        : "name the registry of your programs with `--registry`, or make this one with a first claim";
    throw new SnowleaseError("NOT_FOUND", `The registry ${address.redacted} does not exist yet; ${advice}.`);
  }
  return withOpened(config, use);
}

/** Opens the registry, creates it if necessary, and closes it afterwards. A terminal shows that the command waits for it. */
export function withOpened<Result>(config: Config, use: (registry: Registry) => Promise<Result>): Promise<Result> {
  return whileWaiting(addressOf(config).redacted, async () => {
    const registry = await openConfigured(config);
    try {
      return await use(registry);
    } finally {
      await registry.close().catch(() => undefined);
    }
  });
}

/** The layout of a namespace. @throws SnowleaseError LAYOUT_MISMATCH if an option names another layout. */
export function storedLayout(info: NamespaceInfo, { namespace, layout, sources }: Config): Layout {
  if (sources.layout !== undefined) checkLayout(namespace, layout.fingerprint, info);
  return Layout.parse(info.layout);
}
