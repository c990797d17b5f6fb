import { etcdProgram, openEtcd } from "../support/etcd.ts";
import { restartMatrixOn } from "../support/restart-matrix.ts";
import { findServer } from "../support/store-server.ts";

restartMatrixOn("etcd", await findServer("etcd", etcdProgram), openEtcd, { makesNamespaces: true });
