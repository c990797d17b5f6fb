// A host of a fleet as a process. It is a program of the old scheme, which takes its worker ID as that scheme does, or a program with a
// lease. It prints its worker ID, and makes IDs until SIGTERM. It writes each ID to its file before it makes the next few.
import { openSync, writeSync } from "node:fs";
import { Layout, snowlease } from "../../dist/index.js";

const { scheme, url, address, name, layout: notation, file, options } = JSON.parse(process.argv[2]);
const layout = Layout.parse(notation);
const out = openSync(file, "a");
const handful = 3;

function isGone(pid) {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

/** Loads only what a scheme needs, since a fleet has many processes. */
const connectToRedis = async () => new (await import("ioredis")).Redis(url);
const connectToMysql = async () => (await import("mysql2/promise")).createConnection(url);

/** Each scheme takes a worker ID, and returns it with a function that gives it back. */
const schemes = {
  /** The last bits of the address. */
  ip: () => [address.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0) % 1024, () => undefined],

  /** A worker ID in the list of its address whose process has ended, or the lowest free one. */
  async "westid-redis"() {
    const client = await connectToRedis();
    const list = `workerId:pid:${address}`;
    const value = `${process.pid}x${address}x${name}`;
    const took = async (n) => {
      await client.rpush(list, `${process.pid}x${n}`);
      return [
        n,
        async () => {
          await client.del(`workerId:use:${n}`);
          await client.lrem(list, 0, `${process.pid}x${n}`);
        },
      ];
    };
    for (const entry of await client.lrange(list, 0, -1)) {
      const [pid, n] = entry.split("x").map(Number);
      if (!isGone(pid)) continue;
      await client.lrem(list, 0, entry);
      await client.set(`workerId:use:${n}`, value);
      return took(n);
    }
    for (let n = 0; ; n++) if ((await client.set(`workerId:use:${n}`, value, "NX")) !== null) return took(n);
  },

  /** The same in a table. */
  async "westid-sql"() {
    const pool = await connectToMysql();
    const took = (n) => [n, () => pool.query("DELETE FROM workerid_assign WHERE worker_id = ?", [n])];
    const [rows] = await pool.query("SELECT worker_id, pid FROM workerid_assign WHERE ip = ?", [address]);
    for (const { worker_id: n, pid } of rows) {
      if (!isGone(pid)) continue;
      await pool.query("UPDATE workerid_assign SET pid = ? WHERE worker_id = ?", [process.pid, n]);
      return took(n);
    }
    for (let n = 0; ; n++) {
      try {
        await pool.query("INSERT INTO workerid_assign VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)", [
          n,
          process.pid,
          address,
          name,
        ]);
        return took(n);
      } catch (error) {
        if (error.code !== "ER_DUP_ENTRY") throw error;
      }
    }
  },

  /** A new worker ID at each start. */
  async "uid-generator"() {
    const pool = await connectToMysql();
    const [{ insertId }] = await pool.query(
      "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE) VALUES (?, '1-2', 2, CURRENT_DATE)",
      [address],
    );
    return [insertId, () => undefined];
  },

  /** The sequence of the node of its address and port. */
  async leaf() {
    const { default: zookeeper } = await import("node-zookeeper-client");
    const client = zookeeper.createClient(url.replace(/^zookeeper:\/\/|\?.*$/g, ""));
    await new Promise((resolve) => {
      client.once("connected", resolve);
      client.connect();
    });
    const call = (method, ...args) =>
      new Promise((resolve, reject) => {
        client[method](...args, (error, answer) => (error ? reject(new Error(String(error))) : resolve(answer)));
      });
    const folder = "/snowflake/orders/forever";
    await call("mkdirp", folder);
    const place = `${address}:8080`;
    const told = () => Buffer.from(JSON.stringify({ ip: address, port: "8080", timestamp: Date.now() }));
    const mode = zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
    const own = (await call("getChildren", folder)).find((node) => node.startsWith(`${place}-`));
    const path = own === undefined ? await call("create", `${folder}/${place}-`, told(), mode) : `${folder}/${own}`;
    setInterval(() => void call("setData", path, told(), -1), 3000);
    return [Number(path.slice(-10)), () => client.close()];
  },

  /** A worker ID that was given back, or the next one. */
  async "cosid-redis"() {
    const client = await connectToRedis();
    const [index, revert, adder] = ["itc_idx", "revert", "adder"].map((key) => `cosid:{orders}:${key}`);
    const instance = `${address}:8080`;
    const known = await client.hget(index, instance);
    await client.set(adder, -1, "NX");
    const next = async () => {
      for (const n of Object.keys(await client.hgetall(revert)))
        if ((await client.hdel(revert, n)) === 1) return Number(n);
      return client.incr(adder);
    };
    const n = known === null ? await next() : Number(known.split("|")[0]);
    await client.hset(index, instance, `${n}|${Date.now()}`);
    return [
      n,
      async () => {
        await client.hdel(index, instance);
        await client.hset(revert, n, Date.now());
      },
    ];
  },

  /** The same in a table. */
  async "cosid-sql"() {
    const pool = await connectToMysql();
    const instance = `${address}:8080`;
    const took = (n) => [
      n,
      () => pool.query("UPDATE cosid_machine SET instance_id = '' WHERE name = ?", [`orders.${n}`]),
    ];
    const [own] = await pool.query("SELECT machine_id FROM cosid_machine WHERE instance_id = ?", [instance]);
    if (own.length > 0) return took(own[0].machine_id);
    const [free] = await pool.query("SELECT machine_id FROM cosid_machine WHERE instance_id = ''");
    for (const { machine_id: n } of free) {
      const [{ affectedRows }] = await pool.query(
        "UPDATE cosid_machine SET instance_id = ? WHERE name = ? AND instance_id = ''",
        [instance, `orders.${n}`],
      );
      if (affectedRows === 1) return took(n);
    }
    // Meanwhile, another host may insert the same worker ID.
    for (;;) {
      const [[{ n }]] = await pool.query("SELECT COALESCE(MAX(machine_id) + 1, 0) AS n FROM cosid_machine");
      try {
        const row = [`orders.${n}`, n, Date.now(), instance];
        await pool.query("INSERT INTO cosid_machine VALUES (?, 'orders', ?, ?, ?, 1, 0)", row);
        return took(Number(n));
      } catch (error) {
        if (error.code !== "ER_DUP_ENTRY") throw error;
      }
    }
  },
};

/** Makes IDs the old way. */
function oldWay(workerId) {
  let [tick, sequence] = [0, 0];
  return () => {
    const now = layout.tickOf(Date.now());
    if (now < tick) return [];
    if (now > tick) [tick, sequence] = [now, 0];
    const left = Math.min(handful, layout.maxSequence - sequence);
    return Array.from({ length: left }, () => layout.encode(tick, workerId, sequence++));
  };
}

function leasedWay(ids) {
  return () => {
    const made = [];
    try {
      for (let i = 0; i < handful; i++) made.push(ids.next());
    } catch {
      // The window is not open yet.
    }
    return made;
  };
}

/** The worker ID of a lease. Tries again if the machine is too busy to compare two clocks. */
async function lease() {
  for (;;) {
    try {
      return await snowlease({ ...options, layout: notation, ip: address, host: name });
    } catch (error) {
      if (!["CLOCK_SKEW", "REGISTRY_UNAVAILABLE"].includes(error.code)) throw error;
    }
  }
}

let make;
let end;
if (scheme === "lease") {
  const ids = await lease();
  [make, end] = [leasedWay(ids), () => ids.close()];
  console.log(ids.lease.workerId);
} else {
  const [workerId, giveBack] = await schemes[scheme]();
  [make, end] = [oldWay(workerId), giveBack];
  console.log(workerId);
}
const timer = setInterval(() => {
  const made = make();
  if (made.length > 0) writeSync(out, `${made.join("\n")}\n`);
}, 5);
async function stop() {
  clearInterval(timer);
  await end();
  process.exit();
}
process.on("SIGTERM", () => void stop());
