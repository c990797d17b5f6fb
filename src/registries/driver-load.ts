import { SnowleaseError } from "../id/errors.ts";

/**
 * What to do where a driver cannot be loaded. It goes behind the `import()` itself: a bundler that does not find the driver then leaves it to
 * the run.
 * @param packages what to install.
 */
export function notLoaded(registry: string, packages: string): (cause: unknown) => never {
  return (cause) => {
    throw new SnowleaseError("DRIVER_MISSING", `${registry} needs ${whyOf(cause, packages)}.`, {}, { cause });
  };
}

function whyOf(cause: unknown, packages: string): string {
  const { code, message = String(cause) } = cause as Partial<NodeJS.ErrnoException>;
  if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") {
    return `a driver that is not installed: run \`npm install ${packages}\``;
  }
  const [line = ""] = message.split("\n");
  return `a driver that cannot be loaded: ${line.replace(/\.$/, "")}; look whether \`npm ls ${packages}\` shows it whole`;
}
