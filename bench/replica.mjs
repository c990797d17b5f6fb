// A replica of a service: leases as its environment says, prints an ID, and gives its worker ID back at SIGTERM.

import { snowlease } from "snowlease";

const ids = await snowlease({});
console.log(ids.nextString());
const alive = setInterval(() => undefined, 1000);
process.once("SIGTERM", () => {
  clearInterval(alive);
  void ids.close();
});
