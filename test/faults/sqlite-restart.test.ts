import { newRegistryFile } from "../support/registry-file.ts";
import { restartMatrix } from "../support/restart-matrix.ts";

restartMatrix("sqlite", newRegistryFile);
