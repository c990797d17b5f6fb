import { describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { readHosts } from "../../src/ops/migrate/addresses.ts";
import { makePlan } from "../../src/ops/migrate/plan.ts";
import { hostFindings } from "../../src/ops/migrate/sources/ip.ts";
import { messageOf } from "../support/failures.ts";

const layout = layouts.westid;
const namespace = "orders";

const addresses = (text: string): string[] => readHosts(text, "f").map(({ address }) => address);

describe("a list of hosts", () => {
  test("holds addresses, ranges, and names with an address", () => {
    expect(readHosts("\uFEFF10.0.0.1\r\n\n # none\n db-1\t10.0.0.2 # the old one\n", "f")).toEqual([
      { name: "10.0.0.1", address: "10.0.0.1" },
      { name: "db-1", address: "10.0.0.2" },
    ]);
    expect(addresses("10.0.0.9/30")).toEqual(["10.0.0.9", "10.0.0.10"]);
    expect(addresses("10.0.0.8/31")).toEqual(["10.0.0.8", "10.0.0.9"]);
    expect(addresses("10.0.0.8/32\n::ffff:10.0.0.9")).toEqual(["10.0.0.8", "10.0.0.9"]);
    expect(addresses("2001:DB8:0:0::fffe/127\nfe80::1%eth0")).toEqual(["2001:db8::fffe", "2001:db8::ffff", "fe80::1"]);
    expect(addresses("10.1.0.0/16")).toHaveLength(65_534);
  });

  test("is read with any line ends and separators of editors", () => {
    for (const text of ["a 10.0.0.1\nb 10.0.0.2", "a 10.0.0.1\r\nb 10.0.0.2\r\n", "a 10.0.0.1\rb 10.0.0.2\r"]) {
      expect(readHosts(text, "f").map(({ name }) => name)).toEqual(["a", "b"]);
    }
    // Two concatenated files, the second one with a byte order mark, and a blank outside ASCII.
    expect(addresses("\uFEFF10.0.0.1\n\uFEFF10.0.0.2\n\t 10.0.0.3\u00A0# c\n")).toEqual([
      "10.0.0.1",
      "10.0.0.2",
      "10.0.0.3",
    ]);
  });

  test("may be written as /etc/hosts: an address, then its names", () => {
    expect(readHosts("10.0.0.1 db-1 db-1.example.com db\n10.0.0.2\tdb-2\n", "f")).toEqual([
      { name: "db-1", address: "10.0.0.1" },
      { name: "db-2", address: "10.0.0.2" },
    ]);
  });

  test("lists a host once, by its name", () => {
    expect(readHosts("10.0.0.0/30\ndb 10.0.0.1\n10.0.0.1\ndb 10.0.0.1\n", "f")).toEqual([
      { name: "db", address: "10.0.0.1" },
      { name: "10.0.0.2", address: "10.0.0.2" },
    ]);
  });

  test.each([
    ["", "one host per line, got none"],
    ["\n10.0.0", "an IPv4 or IPv6 address, got `10.0.0`"],
    ["\n10.0.0.1 10.0.0.2", "one address in a line, got `10.0.0.1 10.0.0.2`"],
    ["\n10.0.0.1 a 10.0.0.2", "one address in a line"],
    ["\n10.0.0.0/24 10.0.0.2", "a name beside 10.0.0.2, got `10.0.0.0/24`"],
    ["\n10.0.0.300 10.0.0.2", "a name beside 10.0.0.2, got `10.0.0.300`"],
    ["\nfe80::zz 10.0.0.2", "a name beside 10.0.0.2, got `fe80::zz`"],
    ["\ndb 10.0.0.0/24", "an IPv4 or IPv6 address, got `10.0.0.0/24`"],
    ["\na b c", "an address, a range, or a name and an address, got `a b c`"],
    ["\ndb,10.0.0.1", "an IPv4 or IPv6 address, got `db,10.0.0.1`"],
    ["\n10.0.0.0/33", "a range like 10.0.0.0/24"],
    ["\nx/8", "a range like 10.0.0.0/24"],
    ["\n10.0.0.0/8", "a range of at most 65536 addresses (/16)"],
    ["\n0.0.0.0/0", "a range of at most 65536 addresses (/16)"],
    ["\n2001:db8::/64", "a range of at most 65536 addresses (/112)"],
    ["\n0.0.0.0", "the address of a host"],
    ["\n::", "the address of a host"],
    ["\n224.0.0.1", "the address of a host"],
    ["\n255.255.255.255 broadcasthost", "the address of a host"],
    ["\nff02::1", "the address of a host"],
    ["a 10.0.0.1\nb 10.0.0.1", "one name for 10.0.0.1, which line 1 calls a, got `b`"],
    ["a 10.0.0.1\na 10.0.0.2", "one address for a, which line 1 gives 10.0.0.1, got `10.0.0.2`"],
    ["\n1\u00000\u0000.\u00000\u0000", "UTF-8"],
  ])("that is wrong, like %j, is refused with its line", (text, rule) => {
    const message = messageOf(() => readHosts(text, "hosts.txt"));
    expect(message).toContain("CONFIG_INVALID: Expected ");
    expect(message).toContain(rule);
    expect(message).toContain(text === "" || rule === "UTF-8" ? "hosts.txt" : "correct hosts.txt:2.");
    expect(message).not.toContain("\n");
  });
});

describe("the worker IDs of a list of hosts", () => {
  /** The plan for the worker IDs: [worker ID, for which host, why]. */
  async function numbers(text: string): Promise<{ hosts: unknown[]; retired: unknown[]; remarks: readonly string[] }> {
    const findings = hostFindings(readHosts(text, "f"), layout);
    const about = { namespace, layout, sourceLayout: layout, numbers: 1024, now: 1_700_000_000_000 };
    const { plan } = await makePlan(findings, { ...about, from: "ip", source: "f" });
    return {
      hosts: plan.hosts.map(({ workerId, name, address, renumbered }) => [workerId, name, address, renumbered]),
      retired: plan.retired.map(({ first, last }) => [first, last]),
      remarks: findings.remarks,
    };
  }

  test("two interfaces of one link-local address are two hosts that make the same IDs", async () => {
    const { hosts, remarks } = await numbers("a fe80::1%eth0\nb fe80::1%eth1\n");
    expect(hosts).toEqual([
      [1, "a", undefined, "collides with b"],
      [1, "b", undefined, "collides with a"],
    ]);
    expect(remarks.join("\n")).toContain("fe80::1");
  });

  test.each([
    ["127.0.1.1", 257],
    ["127.0.0.1", 1],
    ["::1", 1],
    ["172.17.0.1", 1],
    ["172.17.0.5", 5],
    ["172.18.0.1", 1],
    ["10.88.0.1", 1],
    ["192.168.122.1", 513],
    ["169.254.0.9", 9],
    ["fe80::9", 9],
  ])("%s does not identify a host: its worker ID gets no owner", async (address, workerId) => {
    const named = await numbers(`alpha ${address}\n`);
    expect(named.hosts).toEqual([[workerId, "alpha", undefined, expect.stringMatching(/./)]]);
    const bare = await numbers(`${address}\n10.0.0.200\n`);
    expect(bare.hosts).toEqual([[200, "10.0.0.200", "10.0.0.200", undefined]]);
    expect(bare.retired).toContainEqual([workerId, workerId]);
    for (const { remarks } of [named, bare]) expect(remarks.join("\n")).toContain(address);
  });

  test("of a large range are computed like those of one address", async () => {
    for (const range of ["172.17.0.0/16", "2001:db8::/112"]) {
      const findings = hostFindings(readHosts(range, "f"), layouts.uid);
      expect(findings.remarks).toHaveLength(1);
      expect(findings.makers.length + findings.retired.length).toBeGreaterThan(65_000);
    }
  });

  test("of IPv6 hosts westid takes the first 4 bytes: those worker IDs get no owner, either", async () => {
    // 0x20010db8, its last 10 bits.
    const java = 0xd_b8 % 1024;
    const { hosts, retired, remarks } = await numbers("a 2001:db8::7\nb 2001:db8:5::9\nc 10.0.1.184\n");
    expect(hosts).toEqual([
      [7, "a", "2001:db8::7", undefined],
      [9, "b", "2001:db8:5::9", undefined],
      [java, "c", "10.0.1.184", expect.stringContaining("2001:db8")],
    ]);
    expect(retired).toEqual([[java, java]]);
    expect(remarks).toHaveLength(1);
    expect(remarks[0]).toContain(`worker ${java}`);
  });
});
