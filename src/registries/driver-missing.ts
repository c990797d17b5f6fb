import { SnowleaseError } from "../id/errors.ts";

/**
 * The refusal of a registry whose driver cannot be imported. Each driver is imported in a `try` by its own name: so a bundler takes one that
 * is installed, and leaves out one that is not.
 * @param store for messages, such as `PostgreSQL`.
 * @param packages what brings the driver, as `npm install` takes it.
 */
export function driverMissing(store: string, packages: string, cause: unknown): SnowleaseError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const what = String(code).includes("MODULE_NOT_FOUND")
    ? "needs a driver that is not installed"
    : `needs a driver that cannot be loaded (${message})`;
  const text = `A registry in ${store} ${what}: run \`npm install ${packages}\`.`;
  return new SnowleaseError("DRIVER_MISSING", text, {}, { cause });
}
