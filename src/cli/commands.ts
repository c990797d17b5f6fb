import type { Command } from "./command.ts";

/** Every command, in the order of `snowlease --help`. Each is loaded when it is named. */
export const commands: Readonly<Record<string, () => Promise<Command>>> = {
  id: async () => (await import("./id.ts")).id,
  exec: async () => (await import("./exec.ts")).exec,
  assign: async () => (await import("./assign.ts")).assign,
  daemon: async () => (await import("./daemon.ts")).daemon,
  inspect: async () => (await import("./inspect.ts")).inspect,
  explain: async () => (await import("./explain.ts")).explain,
  audit: async () => (await import("./audit.ts")).audit,
  workers: async () => (await import("./workers.ts")).workers,
  top: async () => (await import("./top.ts")).top,
  release: async () => (await import("./release.ts")).release,
  pin: async () => (await import("./pin.ts")).pin,
  unpin: async () => (await import("./unpin.ts")).unpin,
  migrate: async () => (await import("./migrate.ts")).migrate,
  init: async () => (await import("./init.ts")).init,
  doctor: async () => (await import("./doctor.ts")).doctor,
};
