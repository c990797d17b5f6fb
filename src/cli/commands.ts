import type { CliCommand } from "./command.ts";

/** Every command, in the order of `snowlease --help`. A command is loaded when a command line names it. */
export const commands: Readonly<Record<string, () => Promise<CliCommand>>> = {
  id: async () => (await import("./commands/id.ts")).id,
  exec: async () => (await import("./commands/exec.ts")).exec,
  assign: async () => (await import("./commands/assign.ts")).assign,
  daemon: async () => (await import("./commands/daemon.ts")).daemon,
  inspect: async () => (await import("./commands/inspect.ts")).inspect,
  explain: async () => (await import("./commands/explain.ts")).explain,
  audit: async () => (await import("./commands/audit.ts")).audit,
  workers: async () => (await import("./commands/workers.ts")).workers,
  top: async () => (await import("./commands/top.ts")).top,
  release: async () => (await import("./commands/release.ts")).release,
  pin: async () => (await import("./commands/pin.ts")).pin,
  unpin: async () => (await import("./commands/unpin.ts")).unpin,
  quarantine: async () => (await import("./commands/quarantine.ts")).quarantine,
  separate: async () => (await import("./commands/separate.ts")).separate,
  remove: async () => (await import("./commands/remove.ts")).remove,
  migrate: async () => (await import("./commands/migrate.ts")).migrate,
  init: async () => (await import("./commands/init.ts")).init,
  token: async () => (await import("./commands/token.ts")).token,
  verify: async () => (await import("./commands/verify.ts")).verify,
  doctor: async () => (await import("./commands/doctor.ts")).doctor,
  completion: async () => (await import("./commands/completion.ts")).completion(commands),
};

/** The commands that a new user needs first: to make IDs, run a program, serve a registry, look and check. */
export const firstCommands: readonly string[] = ["id", "exec", "daemon", "workers", "doctor"];
