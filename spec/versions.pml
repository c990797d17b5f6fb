/*
 * A conditional write to one record of a store that is put back to older copies of itself: src/registries/sql/version.ts,
 * etcd/transaction.ts, kubernetes/leases.ts, zookeeper/connection.ts.
 *
 * Each client reads the record, decides, and writes at any later moment, or never. Between the two, others write, and older copies are put in
 * the store's place. Requests are late: a restore ends the connections of a server, and not what is on its way by another one, unless
 * CONNECTION says that a write goes over the connection of its read.
 *
 * Checked: a write takes effect only on what its client had read.
 *
 * What a write goes by: without a macro, a version that is drawn anew by each write. VALUE: a version that is counted, and the value.
 * CONNECTION: a version that is counted, and the connection. This macro breaks it, and must be found out:
 *
 *   COUNTED_ALONE  a version that is counted, and nothing else
 */

#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef WRITES
#define WRITES 5
#endif
#ifndef RESTORES
#define RESTORES 2
#endif

typedef Record {
  /* Which write made it. */
  byte value;
  byte version;
}

Record stored;
Record copy;
byte writes;
byte restores;
/* How often all connections have ended. */
byte connection;

#ifdef VALUE
#define AS_READ stored.version == before.version && stored.value == before.value
#define NEXT stored.version + 1
#else
#ifdef CONNECTION
#define AS_READ stored.version == before.version && connection == opened
#define NEXT stored.version + 1
#else
#define AS_READ stored.version == before.version
#ifdef COUNTED_ALONE
#define NEXT stored.version + 1
#else
#define NEXT writes
#endif
#endif
#endif

active [CLIENTS] proctype client() {
  Record before;
  byte opened;
  do
  :: writes < WRITES ->
    d_step {
      before.value = stored.value;
      before.version = stored.version;
      opened = connection;
      printf("client %d reads %d\n", _pid, before.value);
    }
    if
    :: d_step {
        if
        :: AS_READ ->
          printf("client %d writes over %d, which it read as %d\n", _pid, stored.value, before.value);
          assert(stored.value == before.value);
          writes++;
          stored.value = writes;
          stored.version = NEXT
        :: else
        fi
      }
    :: skip
    fi
  :: break
  od
}

active proctype operator() {
  do
  :: d_step {
      copy.value = stored.value;
      copy.version = stored.version;
      printf("copied\n");
    }
  :: restores < RESTORES ->
    d_step {
      stored.value = copy.value;
      stored.version = copy.version;
      restores++;
      connection++;
      printf("put back\n");
    }
  :: break
  od
}
