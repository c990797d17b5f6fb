// The IDs of a service, as its code starts them. A program that starts while the registry is in a quarantine waits for its end.
import { snowlease } from "snowlease";

export default function start(options) {
  return snowlease({ claimTimeout: "60s", ...options });
}
