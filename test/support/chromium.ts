import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const file = "/usr/bin/chromium";

/** Why there is no Chromium to start, or undefined. `npm test` installs one where it may; under CI nothing is skipped. */
export const chromiumMissing: string | undefined =
  process.env["CI"] === undefined && !existsSync(file)
    ? "chromium is not installed: as root, apt-get install --no-install-recommends chromium fonts-dejavu-core"
    : undefined;

/** Debian's Chromium, which makes no requests except for the test's pages. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: file,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
    // On a busy machine it takes a while to start.
    timeout: 60_000,
  });
}
