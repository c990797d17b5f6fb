/*
 * A store that forgets what it acknowledged, as src/registries/redis meets it: sql/redis/includes/quarantine.lua (checkQuarantine) notices, and
 * quarantines. Two servers, 0 and 1. One copies the other, late; at any moment it is promoted, and the old primary answers on for
 * as long as min-replicas-max-lag lets it (maxLag). It may then copy the new one, or be told to and get nothing over a link that is
 * cut, and be promoted in its turn. A primary may be flushed under our eyes, and may change its replication id without losing anything, as it does when its last replica leaves.
 *
 * Here time runs, for all: servers' clocks differ by up to maxClockSkew, and so does a holder's from that of the server it asks.
 * Only what is granted counts: a holder may use any tick of its window at any time. Checked: no tick belongs to two windows, but
 * where one who gave it back is continued, once.
 *
 * Each of these macros breaks the rule in one place, and must be found out:
 *
 *   NO_QUARANTINE           whatever a server has forgotten, it goes on
 *   QUARANTINE_TOO_SHORT    one tick less than maxWindow + 2 x maxClockSkew + maxLag
 *   ROLE_NOT_LOOKED_AT      one that bears the primary's replication id is taken for it, though it is a replica
 *   RECEIVED_NOT_LOOKED_AT  a primary under a new id passes by its run_id, though it was a replica in between
 *   ONLY_BYTES_LOOKED_AT    the same, though it was one that nothing came over to
 *   FLUSHED_IS_NEW          a server that knows of no namespace is taken for one that never had it
 *   ERA_NOT_LOOKED_AT       recents from before a quarantine are continued after it
 *   RENEWAL_KEEPS_FROM      the first renewal after a quarantine leaves the window's begin where it was
 */

/*
 * Two settings, since both at once are too much: by default clocks agree, an old primary ends at once, and servers change their
 * parts and ids often; with CLOCKS clocks differ, an old primary lives on, and a server is promoted once.
 */
#ifdef QUARANTINE_TOO_SHORT
#define CLOCKS
#endif
#ifdef ERA_NOT_LOOKED_AT
#define CLAIMS 3
#define IDS 3
#endif

#ifndef CLAIMS
#define CLAIMS 2
#endif
/* SKEW and LAG: maxClockSkew and maxLag, in ticks. TIME: when the world ends. IDS: replication ids, the first primary's being 1. */
#ifdef CLOCKS
#define SKEW 1
#define LAG 1
#ifndef TIME
#define TIME 6
#endif
#ifndef IDS
#define IDS 2
#endif
#else
#define SKEW 0
#define LAG 0
#ifndef TIME
#define TIME 3
#endif
#ifndef IDS
#define IDS 4
#endif
#endif
#define WINDOW 1

#ifdef QUARANTINE_TOO_SHORT
#define QUARANTINE (WINDOW + 2 * SKEW + LAG - 1)
#else
#define QUARANTINE (WINDOW + 2 * SKEW + LAG)
#endif

#define TICKS (TIME + 2 * SKEW + WINDOW + 1)

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* What a server stores, and replicates. */
typedef Data {
  /* meta */
  byte replId;     /* 0: no meta */
  byte runId;
  byte received;
  byte quarantine;
  /* the worker ID's record */
  byte from;
  byte until;
  byte holder;
  byte last;       /* who gave it back, where it may be continued */
  bool clean;
  bool sameEra     /* era equals meta's */
}
Data data[2];

/* What a server's process knows of itself; its run_id is its number and one, for as long as it lives. */
typedef Process {
  bool primary;
  byte replId;
  bool second;     /* master_replid2 is set: its id is inherited */
  byte received    /* how much it has taken over from a primary, and how often it was told to be one */
}
Process server[2];

byte now = 1 + SKEW;
byte newest = 0;       /* the server promoted last */
bool linked = true;    /* the other one copies it */
byte silent = 0;       /* for how long nothing was heard of it, at most LAG and one tick */
byte ids = 1;
bool flushed = false;
byte ahead;            /* the server whose clock is one tick ahead of the other's; 2: neither */
byte claims = 0;

/* No part of the system: whose window a tick belongs to. */
byte owner[TICKS];

#define clockOf(s) ((s) == ahead -> now + SKEW : now)
/* A primary that no replica has acknowledged for longer refuses writes (min-replicas-to-write). The newest one may have none. */
#define answersAsPrimary(s) (server[s].primary && ((s) == newest || silent <= LAG))
#ifdef ROLE_NOT_LOOKED_AT
/* Replicas do, where somebody has set replica-read-only to no. */
#define answers(s) (!server[s].primary || answersAsPrimary(s))
#else
#define answers(s) answersAsPrimary(s)
#endif

inline copy(a, b) {
  data[b].replId = data[a].replId; data[b].runId = data[a].runId; data[b].received = data[a].received;
  data[b].quarantine = data[a].quarantine; data[b].from = data[a].from; data[b].until = data[a].until;
  data[b].holder = data[a].holder; data[b].last = data[a].last; data[b].clean = data[a].clean;
  data[b].sameEra = data[a].sameEra
}

inline forget(s) {
  data[s].replId = 0; data[s].runId = 0; data[s].received = 0; data[s].quarantine = 0; data[s].from = 0;
  data[s].until = 0; data[s].holder = 0; data[s].last = 0; data[s].clean = false; data[s].sameEra = false
}

inline newId(s) {
  ids++;
  server[s].replId = ids
}

proctype World() {
end:
  do
  :: d_step { 
       now < TIME ->
       now++;
       silent = MIN(silent + 1, LAG + 1);
       if
       :: !linked && silent > LAG && ids == IDS -> forget(1 - newest); server[1 - newest].replId = 0 /* which no longer matters */
       :: else
       fi
     }
  :: d_step { linked -> silent = 0; copy(newest, 1 - newest) }
  :: d_step {
       linked && ids < IDS ->
       printf("%d: server %d is promoted\n", now, 1 - newest);
       linked = false;
       newest = 1 - newest;
       server[newest].primary = true; server[newest].second = true;
       newId(newest)
     }
  :: d_step {
       /* The old primary becomes a replica of the new one, and takes over all it has. */
       !linked && ids < IDS ->
       printf("%d: server %d becomes a replica\n", now, 1 - newest);
       linked = true; silent = 0;
       server[1 - newest].primary = false;
       server[1 - newest].replId = server[newest].replId;
       server[1 - newest].received++;
       copy(newest, 1 - newest)
     }
  :: d_step {
       /* The old primary was made a replica of the new one, took over nothing, and is promoted. */
       !linked && ids < IDS ->
       printf("%d: server %d is promoted, from behind a cut link\n", now, 1 - newest);
       silent = 0;
       newest = 1 - newest;
#ifndef ONLY_BYTES_LOOKED_AT
       server[newest].received++;
#endif
       server[newest].second = true;
       newId(newest)
     }
  :: d_step {
       !linked && ids < IDS ->
       printf("%d: server %d changes its id\n", now, newest);
       server[newest].second = false;
       newId(newest)
     }
#ifndef CLOCKS
  :: d_step {
       !flushed ->
       printf("%d: server %d is flushed\n", now, newest);
       flushed = true;
       forget(newest)
     }
#endif
  od
}

#ifdef ROLE_NOT_LOOKED_AT
#define isOwn(s) (data[s].replId == server[s].replId)
#else
#define isOwn(s) (server[s].primary && data[s].replId == server[s].replId)
#endif

#ifdef RECEIVED_NOT_LOOKED_AT
#define sameReceived(s) true
#else
#define sameReceived(s) (data[s].received == server[s].received)
#endif
#define isSame(s) (server[s].primary && data[s].runId == s + 1 && !server[s].second && sameReceived(s))

/* Of every script. `open`: it may go on. */
inline guard(s) {
  open = true;
  if
#ifdef NO_QUARANTINE
  :: true
#else
  :: isOwn(s)
#ifdef FLUSHED_IS_NEW
  :: !isOwn(s) && data[s].replId == 0 ->
     data[s].replId = server[s].replId; data[s].runId = s + 1; data[s].received = server[s].received
#endif
  :: else ->
     if
     :: isSame(s) -> data[s].replId = server[s].replId
     :: else ->
        data[s].replId = server[s].replId; data[s].runId = s + 1; data[s].received = server[s].received;
        data[s].quarantine = MAX(data[s].quarantine, clockOf(s) + QUARANTINE);
        data[s].sameEra = false;
        printf("%d: server %d is in quarantine until %d\n", now, s, data[s].quarantine)
     fi
#endif
  fi;
  if
  :: clockOf(s) < data[s].quarantine -> open = false
  :: else
  fi
}

#ifdef ERA_NOT_LOOKED_AT
#define inherits(s) data[s].clean
#else
#define inherits(s) (data[s].clean && data[s].sameEra)
#endif

#define isFree(s) (data[s].until <= clockOf(s) || (inherits(s) && data[s].from <= clock))

/* Ticks become this holder's: all of its window, wherever it uses one. */
inline own() {
  for (t : from .. until - 1) {
    assert(owner[t] == 0 || owner[t] == me);
    owner[t] = me
  }
  t = 0
}

/* claim.lua, asked of a server by one whose clock is so far ahead of the server's. Behind it, less would be free, and no window longer. */
inline claim(s, by) {
  d_step {
    claims == me - 1 && answers(s) ->
    guard(s);
    clock = clockOf(s) + by;
    if
    :: open && isFree(s) ->
       claims = me;
       from = MAX(MAX(data[s].until, clockOf(s) - SKEW), data[s].quarantine);
       until = MAX(data[s].until, clock + WINDOW);
       printf("%d: server %d grants claim %d [%d, %d)\n", now, s, me, from, until);
       if
       :: inherits(s) ->
          /* Recents tell of what was used before: here, whose it was, and that nobody else has continued it. */
          for (t : data[s].from .. data[s].until - 1) {
            assert(owner[t] == 0 || owner[t] == data[s].last);
            owner[t] = me
          }
       :: else
       fi;
       data[s].from = from; data[s].until = until;
       data[s].holder = me; data[s].last = 0; data[s].clean = false; data[s].sameEra = true;
       own()
    :: else
    fi;
    clock = 0; open = false
  }
}

/* renew.lua. `arrives`: its answer. */
inline renew(s, by, arrives) {
  d_step {
    until > 0 && answers(s) ->
    guard(s);
    clock = clockOf(s) + by;
    if
    :: open && data[s].holder == me ->
#ifndef RENEWAL_KEEPS_FROM
       if
       :: !data[s].sameEra -> data[s].from = MAX(data[s].from, data[s].quarantine)
       :: else
       fi;
#endif
       data[s].sameEra = true;
       data[s].until = MAX(data[s].until, clock + WINDOW);
       printf("%d: server %d renews %d [%d, %d)\n", now, s, me, data[s].from, data[s].until);
       if
       :: arrives ->
          /* lease.ts: #renewOnce */
          from = MAX(from, data[s].from);
          until = MAX(until, data[s].until);
          own()
       :: else
       fi
    :: else
    fi;
    clock = 0; open = false
  }
}

/* The generator is sealed: what was not handed out by then is nobody's any more. */
inline seal(ends) {
  d_step {
    until > 0 ->
    told = ends;
    for (t : told .. until - 1) {
      owner[t] = 0
    }
    t = 0; until = 0
  }
}

/* release.lua: a give-back comes at any time, once or more often, to either server, or never. */
inline release(s) {
  d_step {
    told > 0 && answers(s) ->
    guard(s);
    if
    :: data[s].holder == me && !data[s].sameEra -> data[s].holder = 0
    :: data[s].holder == me && data[s].sameEra && told >= data[s].from && told <= data[s].until && from >= data[s].from ->
       data[s].holder = 0; data[s].last = me; data[s].clean = true;
       data[s].from = from; data[s].until = told;
       printf("%d: server %d takes back %d until %d\n", now, s, me, told)
    :: else
    fi;
    open = false
  }
}

proctype Holder(byte me) {
  byte t, clock;
  byte from, until; /* its window; until 0: none, or no more */
  byte told;        /* up to where it gave the window back; 0: not at all */
  bool open;
end:
  do
  :: claim(0, 0)
  :: claim(1, 0)
  :: renew(0, 0, true)
  :: renew(1, 0, true)
  :: renew(0, 0, false)
  :: renew(1, 0, false)
#ifdef CLOCKS
  :: claim(0, SKEW)
  :: claim(1, SKEW)
  :: renew(0, SKEW, true)
  :: renew(1, SKEW, true)
  :: renew(0, SKEW, false)
  :: renew(1, SKEW, false)
#endif
  :: seal(from)
  :: seal(until)
  :: release(0)
  :: release(1)
  :: d_step { told > 0 -> told = 0; from = 0 } /* a crash comes to the same */
  od
}

init {
  byte i;
  atomic {
#ifdef CLOCKS
    select(ahead : 0 .. 2);
#else
    ahead = 2;
#endif
    server[0].primary = true; server[0].replId = 1;
    server[1].replId = 1; server[1].received = 1;
    /* `snowlease init --new` */
    data[0].replId = 1; data[0].runId = 1;
    copy(0, 1);
    run World();
    for (i : 1 .. CLAIMS) {
      run Holder(i)
    }
    i = 0
  }
}
