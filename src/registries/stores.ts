/*
 * Every kind of store, one in each line. This file loads no driver.
 */

export { etcd } from "./etcd/address.ts";
export { http, unix } from "./daemon/address.ts";
export { kubernetes } from "./kubernetes/address.ts";
export { memory } from "./memory/address.ts";
export { redis } from "./redis/address.ts";
export { mysql, oracle, postgres } from "./sql/address.ts";
export { sqlite } from "./sqlite/address.ts";
export { zookeeper } from "./zookeeper/address.ts";
