/*
 * The rule, for one worker ID: src/rule/window.ts decides, src/lease/lease.ts asks, src/generator/snowflake.ts hands out.
 *
 * Embedded time is a few ticks with a few sequences each. Every clock shows anything at every look at it; so a lease passes to
 * others at any moment, and nothing here rests on time. Every request comes late, out of order, more than once or never, and so
 * does every answer. A process stops for as long as it likes between any two steps, and wakes or does not.
 *
 * Checked: no sequence of a tick is handed out twice.
 *
 * Each of these macros breaks the rule in one place, and must be found out:
 *
 *   NO_WINDOW_CHECK             a tick is handed out whether or not it lies in the window
 *   CLAIM_LOWERS_UNTIL          a claim sets `until` to what it asks for, though it was later
 *   RIGHT_NOT_CONSUMED          recents stay for others to continue after one did
 *   LATE_RENEWAL                a renewal is taken though its claim has ended, where nobody else holds the worker ID
 *   GIVE_BACK_BELOW_CHECKPOINT  an `until` before what the holder itself says it used is taken
 *   GIVE_BACK_BELOW_FROM        an `until` before the window's own begin is taken: of one who came no further, or used nothing
 *   RECENTS_NOT_MERGED          one who continued hands over what it used itself, without what it inherited
 *   RECENTS_TOO_LONG            recents begin before the first tick of which the holder knows
 *   FORCED_IS_CLEAN             after a forced release others may continue from the recents that the holder had inherited
 */

#ifndef CLAIMS
#define CLAIMS 3
#endif
#ifndef TICKS
#define TICKS 3
#endif
#ifndef SEQUENCES
#define SEQUENCES 2
#endif

#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* window.ts: Stored. A token is as good as a fence here: 0 is nobody's. */
typedef Record {
  byte fence;
  byte holder;
  byte from;
  byte until;
  bool clean;
  byte floor;
  byte recents[TICKS] /* how many sequences of a tick were used */
}
Record stored;

/* No part of the system: what was handed out, by whomever. */
bool used[TICKS * SEQUENCES];

inline forgetRecents() {
  for (t : 0 .. TICKS - 1) {
    stored.recents[t] = 0
  }
  t = 0
}

inline forgetOwn() {
  d_step {
    from = 0; until = 0; floor = 0; end = 0; told = 0;
    for (t : 0 .. TICKS - 1) {
      next[t] = 0;
      own[t] = 0
    }
    t = 0
  }
}

/*
 * window.ts: isFree. Its clocks are those of holder and registry, here the later one, which decides about `until`: where the other
 * is behind, the claim is refused, and that hurts nobody. What was given back may be claimed whatever the clock shows: the code asks
 * only that the claimer can use it soon, behind the recents or, in lead mode, ahead of its clock.
 */
#define isFree(clock) (stored.until <= (clock) || stored.clean)

/*
 * window.ts: claimed. A window of one tick, since the clock shows anything: it ends anywhere. The registry may let it begin later
 * than where the last one ended (its own clock less maxClockSkew); those ticks are then nobody's.
 */
inline claimed() {
  d_step {
    from = stored.until;
    floor = from;
    if
    :: stored.clean ->
       floor = stored.floor;
       for (t : 0 .. TICKS - 1) {
         /* Recents that tell of later times are worth nothing: recent.ts, after. */
         next[t] = (t < from -> stored.recents[t] : 0)
       }
       t = 0
    :: else
    fi;
#ifdef CLAIM_LOWERS_UNTIL
    until = clock + 1;
#else
    until = MAX(stored.until, clock + 1);
#endif
    stored.fence = me;
    stored.holder = me;
    stored.from = from;
    stored.until = until;
    stored.floor = floor;
    printf("claim %d: window [%d, %d), floor %d\n", me, from, until, floor);
    clock = 0;
#ifndef RIGHT_NOT_CONSUMED
    stored.clean = false;
#ifndef FORCED_IS_CLEAN
    /* The code keeps them for the claim that is asked again, and for nobody else. The answer is the same one. */
    forgetRecents();
#endif
#endif
  }
}

#ifdef LATE_RENEWAL
#define isHolders (stored.holder == me || stored.holder == 0)
#else
#define isHolders (stored.holder == me)
#endif

/* window.ts: renewed; `clock` as above. */
inline renewed() {
  d_step {
    if
    :: isHolders -> stored.until = MAX(stored.until, clock + 1);
       printf("renewal of %d: until %d\n", me, stored.until)
    :: else
    fi;
    clock = 0
  }
}

#ifdef GIVE_BACK_BELOW_CHECKPOINT
#define least stored.from
#else
#ifdef GIVE_BACK_BELOW_FROM
#define least end
#else
#define least MAX(stored.from, end)
#endif
#endif

/* window.ts: released. `told` is `until`, `end` the checkpoint and one tick. What is refused changes nothing. */
inline released() {
  d_step {
    if
    :: stored.holder == me && told >= least && told <= stored.until ->
       stored.holder = 0;
       stored.clean = true;
       stored.until = told;
#ifdef RECENTS_TOO_LONG
       stored.floor = 0;
#else
       stored.floor = MAX(stored.floor, floor);
#endif
       for (t : 0 .. TICKS - 1) {
#ifdef RECENTS_NOT_MERGED
         stored.recents[t] = own[t]
#else
         stored.recents[t] = next[t]
#endif
       }
       t = 0;
       printf("give-back of %d: until %d, recents from %d\n", me, told, stored.floor)
    :: else
    fi
  }
}

#ifdef NO_WINDOW_CHECK
#define mayUse(tick) ((tick) >= floor)
#else
#define mayUse(tick) ((tick) >= floor && (tick) < until)
#endif

/* snowflake.ts: a tick is opened, and its next sequence handed out. */
inline handOut() {
  d_step {
    if
    :: mayUse(clock) && next[clock] < SEQUENCES ->
       printf("%d hands out sequence %d of tick %d\n", me, next[clock], clock);
       assert(!used[clock * SEQUENCES + next[clock]]);
       used[clock * SEQUENCES + next[clock]] = true;
       next[clock]++;
#ifdef RECENTS_NOT_MERGED
       own[clock] = next[clock];
#endif
       end = MAX(end, clock + 1)
    :: else
    fi;
    clock = 0
  }
}

/*
 * One claim, and its messages. Who claims again has forgotten all that came before, so it may as well be somebody else; and since
 * all are alike until they claim, the first claim is the first one's.
 */
proctype Holder(byte me) {
  byte clock, t;
  byte from, until, floor;
  byte next[TICKS]; /* what its generator remembers: the first sequence of each tick that is unused */
  byte own[TICKS];  /* for RECENTS_NOT_MERGED */
  byte end;         /* the tick behind the newest one handed out */
  byte told;
  bool renewing;    /* a renewal is on its way */
  bool givingBack;  /* a give-back is on its way: it tells of `told`, `end`, `floor` and `next`, which no longer change */

end_unclaimed:
  atomic {
    stored.fence == me - 1 ->
    select(clock : 0 .. TICKS - 1);
    if
    :: isFree(clock) -> claimed()
    :: else -> clock = 0; goto end_unclaimed
    fi
  }
  /* The answer may come at any time from here on, to the first question or a repeated one. Where it never comes, it is a crash. */

end_held:
  do
  :: atomic { select(clock : 0 .. TICKS - 1); handOut() }
  :: !renewing -> renewing = true
  :: renewing ->
     atomic {
       select(clock : 0 .. TICKS - 1);
       renewed();
       if
       :: isHolders -> from = MAX(from, stored.from); until = MAX(until, stored.until) /* the answer arrives */
       :: true                                                                         /* or does not */
       fi
     }
  :: renewing -> renewing = false
  :: atomic {
       /* lease.ts: the generator is sealed first. A client that counts wrong says what it used and another `until`. */
       givingBack = true;
       if
#ifdef GIVE_BACK_BELOW_FROM
       :: told = end
#else
       :: told = MAX(from, end)
#endif
       :: told = from
       fi;
       from = 0; until = 0;
       goto end_ended
     }
  :: atomic { printf("%d crashes\n", me); forgetOwn(); goto end_ended }
  od;

end_ended:
  do
  :: renewing -> atomic { select(clock : 0 .. TICKS - 1); renewed() }
  :: renewing -> renewing = false
  :: givingBack -> released()
  :: givingBack -> atomic { givingBack = false; forgetOwn() }
  od
}

/* window.ts: forced. At any time, of whatever record. */
proctype Operator() {
  byte t;
end:
  do
  :: d_step {
       stored.holder != 0 || stored.clean ->
       stored.holder = 0;
#ifdef FORCED_IS_CLEAN
       stored.clean = true;
#else
       stored.clean = false;
       forgetRecents();
#endif
       printf("forced release\n")
     }
  od
}

init {
  byte i;
  atomic {
    for (i : 1 .. CLAIMS) {
      run Holder(i)
    }
    i = 0;
    run Operator()
  }
}
