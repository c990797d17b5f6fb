import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";
import { whyMissing } from "./servers.ts";

const file = "/usr/bin/chromium";

/** Why there is no Chromium to start; undefined if there is one. */
export const chromiumMissing: string | undefined = whyMissing(
  "chromium",
  () => existsSync(file),
  "chromium fonts-dejavu-core",
);

/** Starts Debian's Chromium. It calls no other servers than those that a test opens. */
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
    // On a busy machine, Chromium takes a while to start.
    timeout: 60_000,
  });
}
