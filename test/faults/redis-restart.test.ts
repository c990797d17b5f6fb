import { openRedis, redisProgram } from "../support/redis.ts";
import { restartMatrixOn } from "../support/restart-matrix.ts";
import { findServer } from "../support/store-server.ts";

restartMatrixOn("redis", await findServer("redis", redisProgram), openRedis);
