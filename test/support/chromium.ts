import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";
import { whyMissing } from "./servers.ts";

const file = "/usr/bin/chromium";

/** Why there is no Chromium to start, or undefined. */
export const chromiumMissing: string | undefined = whyMissing(
  "chromium",
  () => existsSync(file),
  "chromium fonts-dejavu-core",
);

/** Debian's Chromium, which calls nobody but those it is sent to. */
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
    // On a busy machine it takes a while to come up.
    timeout: 60_000,
  });
}
