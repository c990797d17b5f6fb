import { openZooKeeper, zooKeeperProgram } from "../support/zookeeper.ts";
import { restartMatrixOn } from "../support/restart-matrix.ts";
import { findServer } from "../support/store-server.ts";

restartMatrixOn("zookeeper", await findServer("zookeeper", zooKeeperProgram), openZooKeeper, { makesNamespaces: true });
