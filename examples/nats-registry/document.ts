// A document in a key-value bucket of NATS JetStream: its revisions are the compare-and-set.

import { JetStreamApiError } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Document } from "../own-registry/document-registry.ts";

/** JetStream's error code for a revision that is not the newest any more. */
const wrongRevision = 10_071;

/** `replicas`: of how many servers of a cluster keep the bucket; acknowledged by most of them. */
export async function natsDocument(nats: NatsConnection, key: string, replicas = 1): Promise<Document> {
  // Without `allow_direct: false`, a server that lags behind the leader may answer a read.
  const bucket = await new Kvm(nats).create("snowlease", { replicas, allow_direct: false });

  return {
    async read() {
      const entry = await bucket.get(key);
      if (entry === null) return { version: 0, text: "" };
      // Of a key that was deleted, the value is empty.
      return { version: entry.revision, text: entry.string() };
    },

    async replace(version, text) {
      try {
        await (version === 0 ? bucket.create(key, text) : bucket.update(key, text, version));
        return true;
      } catch (error) {
        if (error instanceof JetStreamApiError && error.code === wrongRevision) return false;
        throw error; // of a timeout, too: whether the text was stored is not known
      }
    },
  };
}
