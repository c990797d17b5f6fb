import { spawn } from "node:child_process";

/**
 * Tells the service manager that started this process (systemd, `Type=notify`) that it is ready; nothing where there is none. By way
 * of systemd-notify(1), since Node has no datagrams on Unix sockets; the unit has to let it (`NotifyAccess=all`).
 */
export function notifyReady(): void {
  if (process.env["NOTIFY_SOCKET"] === undefined) return;
  // A manager that is not told ends the service once its patience is over, and says so.
  spawn("systemd-notify", ["--ready"], { stdio: "ignore" }).on("error", () => undefined);
}
