const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i;

/** Whether only programs of this machine reach a host, as a URL or an option names it: without brackets. */
export function isLoopback(host: string): boolean {
  return loopback.test(host);
}
