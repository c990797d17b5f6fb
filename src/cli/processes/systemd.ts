import { spawn } from "node:child_process";

/**
 * Notifies systemd (`Type=notify`) that this process is ready, where systemd started it. By way
 * of systemd-notify(1), since Node has no datagrams on Unix sockets; the unit has to let it (`NotifyAccess=all`).
 */
export function notifyReady(): void {
  if (process.env["NOTIFY_SOCKET"] === undefined) return;
  // Without the notification, systemd ends the service after a timeout, and reports that.
  spawn("systemd-notify", ["--ready"], { stdio: "ignore" }).on("error", () => undefined);
}
