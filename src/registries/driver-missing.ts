import { SnowleaseError } from "../id/errors.ts";

/**
 * The error if a driver cannot be imported. Each driver is imported in a `try` by its literal name. So a bundler includes a driver that is
 * installed, and omits one that is not.
 * @param store for messages, such as `PostgreSQL`.
 * @param packages the packages of the driver, as `npm install` takes them.
 */
export function driverMissing(store: string, packages: string, cause: unknown): SnowleaseError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const what = String(code).includes("MODULE_NOT_FOUND")
    ? "needs a driver that is not installed"
    : `needs a driver that cannot be loaded (${message})`;
  const text = `A registry in ${store} ${what}: run \`npm install ${packages}\`.`;
  return new SnowleaseError("DRIVER_MISSING", text, {}, { cause });
}
