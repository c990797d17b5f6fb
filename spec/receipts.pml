/*
 * A store that is put back to an older copy of itself, two stores behind one address, and a holder that is copied: receipts and turns
 * (src/rule/receipt.ts, src/rule/turn.ts), as every registry checks them in its atomic step. One worker ID. A holder sends its newest
 * receipt (era, fence, token, n, until) with each renewal and give-back, and its turns: the one that was acknowledged last, the next one,
 * and those that it sent since. Requests and answers may be lost, repeated or late. A holder may use any tick of its window, or stop.
 *
 * Checked, of a tick that two tokens use:
 *   - one of the two had a window that the store forgot, and has had no answer since (`isExcused`);
 *   - neither of the two was granted it after the store was shown evidence, or, when no claim stands, that the worker ID was granted twice (`sure`);
 *   - it does not lie behind the end of a quarantine;
 *   - with TWO stores: neither of the two has shown its newest receipt to both stores (`sure`);
 *   - with COPIES: one of the two is a copy that has had fewer than `bound` answers since it was copied;
 *   - with SNAPSHOT: both are runs of one process.
 * And:
 *   - a store begins at most one quarantine for each time that it was put back, and one more for each forgotten era: none, where it was not;
 *   - with ENDED: a claim has a fence above all that were granted before its era, forgotten or not;
 *   - of two copies of one holder, none is granted anything once the other has had `bound` answers, and goes on;
 *   - without COPIES no holder hears that it is a copy.
 *
 * Each of these macros breaks the rule in one place, and must be found out:
 *
 *   NO_QUARANTINE        evidence changes nothing
 *   NO_OWN_RECORD        a lower fence, another token and a lower n are no evidence
 *   UNTIL_FOR_N          the receipt's end is compared in the place of n
 *   COVERED_COUNTS       evidence that a quarantine covers begins another one
 *   BEYOND_COVERED       evidence of an older era never counts, also where its window ends behind the quarantine
 *   LATER_COVERED        evidence of a later era counts as covered
 *   LATER_IGNORED        a later era than the store's is no evidence
 *   FORCED_COUNTS        a record without a token is evidence
 *   RECALL_IGNORED       the receipt that a claim bears is not looked at
 *   TOO_SHORT            a quarantine is one tick shorter than maxWindow + 2 x maxClockSkew
 *   FROM_KEPT            the first renewal after a quarantine leaves the window's begin where it was
 *   GRANT_KEPT           a claim that is repeated after a quarantine is granted as it was
 *   DOUBLE_GOES_ON       a holder whose ticks another claim may use waits for the end of the quarantine
 *   DOUBLE_STAYS_OPEN    a renewal that finds its times granted again and given back leaves the window as it is
 *   STRANGER_WAITS       a holder whose claim is over, and whose receipt is no evidence, waits for the end of the quarantine
 *   ENDED_AT_ONCE        an operator's end of a quarantine lets windows begin at the registry's clock
 *   ENDED_EARLY          the same, at that clock + maxClockSkew + 1 tick, not 2 x maxClockSkew
 *   END_LOWERS           an operator's end of a quarantine lowers `quarantineEnd`
 *   FENCE_KEPT           a claim of a new era has the fence behind the record's
 *   LAGGING_COUNTS       evidence is acted on, whether or not the record that it contradicts still stands
 *   ERA_NOT_LOOKED_AT    evidence is acted on, whether or not a quarantine has begun since it was read
 *   NO_TURNS             turns are not looked at
 *   TURNS_OF_OLD_ERAS    turns decide in records of an older era, too
 *   SENT_FORGOTTEN       a holder that draws a turn no longer names the one before, whose answer was lost
 *   ONE_SENT             a holder names only the last one of the turns that it sent
 *   KEPT_FOR_EVER        a turn that was sent is sent again after the window has passed
 *   CLAIM_REPEATED       a claim is granted to its token again after the first renewal
 *   JUMP_CLEAN           a process whose clock jumped ahead gives back clean
 *   RENEWED_CLEAN        such a process gives back clean once a renewal was answered
 */

/* Settings. Each variant has the smallest that finds it out. */
#if defined(NO_QUARANTINE) || defined(NO_OWN_RECORD) || defined(UNTIL_FOR_N) || defined(COVERED_COUNTS) || defined(DOUBLE_GOES_ON) || defined(STRANGER_WAITS)
#define RESTORE
#define TURNS 0
#endif
#ifdef TURNS_OF_OLD_ERAS
#define RESTORE
#define CLAIMS 1
#define TURNS 4
#endif
#ifdef RECALL_IGNORED
#define RESTORE
#define RECALL
#define TURNS 0
#define CLAIMS 3
#endif
#ifdef TOO_SHORT
#define RESTORE
#define TURNS 0
#define CLAIMS 3
#define HOLDERS 3
#define RENEWALS 1
#endif
#ifdef DOUBLE_STAYS_OPEN
#define RESTORE
#define TURNS 0
#define CLAIMS 3
#define RENEWALS 1
#define TIME 2
#endif
#ifdef FROM_KEPT
#define RESTORE
#define TURNS 0
#define SKEW 1
#define WINDOW 1
#define BEHIND
#define RENEWALS 1
#endif
#if defined(GRANT_KEPT) || defined(ENDED_EARLY)
#define RESTORE
#define END
#define TURNS 0
#define SKEW 1
#define BEHIND
#define RENEWALS 0
#endif
#ifdef ENDED_AT_ONCE
#define RESTORE
#define END
#define TURNS 0
#define CLAIMS 3
#endif
#ifdef END_LOWERS
#define RESTORE
#define END
#define LATE
#define TURNS 0
#endif
#ifdef BEYOND_COVERED
#define TWO
#define TURNS 0
#define RENEWALS 1
#define TIME 3
#endif
#ifdef FORCED_COUNTS
#define FORCED
#define TURNS 0
#endif
#ifdef LAGGING_COUNTS
#define LAGGING
#define TURNS 0
#endif
#ifdef ERA_NOT_LOOKED_AT
#define RESTORE
#define STEPS
#define TURNS 0
#endif
#if defined(NO_TURNS) || defined(KEPT_FOR_EVER) || defined(CLAIM_REPEATED)
#define COPIES
#define CLAIMS 1
#endif
#ifdef ONE_SENT
#define JUMPS
#endif
#if defined(LATER_COVERED) || defined(FENCE_KEPT)
#define RESTORE
#define ENDED
#define FAILOVER
#define TURNS 0
#define RENEWALS 0
#define TIME 3
#endif
#ifdef LATER_IGNORED
#define RESTORE
#define FAILOVER
#define TURNS 0
#define CLAIMS 3
#define RENEWALS 1
#define WINDOW 1
#define TIME 3
#endif
#if defined(JUMP_CLEAN) || defined(RENEWED_CLEAN)
#define SNAPSHOT
#define TURNS 2
#define TIME 3
#endif

/*
 * RESTORE: the store is put back, once. END: an operator ends the quarantine. RECALL: a claim bears the receipt of an earlier one. LATE: one
 * renewal comes once more. STEPS: evidence is read, and acted on later. LAGGING: the same, and it may be read from an older copy. FORCED: an operator
 * ends a claim. JUMPS: clocks jump, so that a turn is drawn anew. COPIES: holder 0 is copied. TWO: two stores, requests go to either.
 * BEHIND: the store is put back on a server whose clock is behind that of the first one. FAILOVER: the store begins a quarantine by itself,
 * and has forgotten nothing. ENDED: an operator ended the last quarantine before it all, whose end lies ahead. SNAPSHOT: the machine of
 * holder 0 is put back to a snapshot that is at least a tick old: holder 2 goes on there, and its clock has jumped ahead.
 */
#ifdef SNAPSHOT
#define COPIES
#endif
#ifdef LAGGING
#define STEPS
#endif
#ifdef TWO
#define STORES 2
#else
#define STORES 1
#endif
#ifndef CLAIMS
#define CLAIMS 2
#endif
/* Ticks in which something happens. */
#ifndef TIME
#define TIME 4
#endif
/* Turns that holders may draw, in all. With 0 they send none, and a record counts to RENEWALS. */
#ifndef TURNS
#define TURNS 3
#endif
#ifndef RENEWALS
#define RENEWALS 2
#endif
/* maxClockSkew, in ticks. */
#ifndef SKEW
#define SKEW 0
#endif
#ifndef HOLDERS
#ifdef COPIES
#define HOLDERS 3
#else
#define HOLDERS 2
#endif
#endif
/* maxWindow, in ticks. */
#ifndef WINDOW
#define WINDOW 2
#endif
#ifdef TOO_SHORT
#define LENGTH (WINDOW + 2 * SKEW - 1)
#else
#define LENGTH (WINDOW + 2 * SKEW)
#endif
#define FIRST (1 + 2 * SKEW)
#define LAST (FIRST + TIME - 1)
#define TICKS (LAST + 2 * SKEW + 1)
#define ERAS (TIME * STORES + 2)
/* A request may be a tick old where LATE ones come. */
#if defined(LATE) && SKEW == 0
#define OLD 1
#else
#define OLD SKEW
#endif

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define BIT(b) (1 << (b))

typedef Record { byte fence; byte token; byte from; byte until; byte n; byte turn; byte era }
typedef Store { Record record; byte era; byte quarantineEnd; byte opened }
Store store[STORES];
#if defined(RESTORE) || defined(LAGGING)
Store copy;
#endif

typedef Receipt { byte fence; byte token; byte until; byte n; byte era }

/* A holder, which is also its newest receipt. */
typedef Holder {
  byte token;      /* 0: it has no claim */
  bool granted;    /* false: its claim has no answer yet */
  byte fence; byte from; byte until; byte n; byte era;
  byte turn;       /* acknowledged last */
  byte next;       /* 0: none drawn */
  bool renewed;    /* `next` was drawn after the window had passed */
  byte sent;       /* turns sent since an answer, as bits */
  byte used;       /* end of the last tick that it used */
  /* No part of the system: */
  bool forgotten;  /* the store was put back to before its receipt */
  bool answered;   /* the store that was put back has answered it */
  bool sure;       /* no other may use what it uses now */
  byte last;       /* the store that it has its receipt from */
  byte answers     /* how often it was granted or renewed since it was copied */
#ifdef SNAPSHOT
  ;bool jumped      /* its clock has jumped ahead since its claim */
#endif
}
Holder holder[HOLDERS];
#ifdef LATE
Holder late;       /* a renewal that comes again */
bool lateSent; byte lateAt;
#endif
#ifdef SNAPSHOT
Holder snapshot;   /* of holder 0 */
bool taken; byte takenAt;
#endif
#ifdef RECALL
Receipt recall;    /* the newest receipt of a claim that was not given back */
#endif
#ifdef STEPS
Receipt shown;     /* a receipt that a record contradicts, uncovered, */
Record read;       /* that record, */
byte readEra;      /* and the era that was read with it */
#endif

byte now = FIRST;
/* How far the clock of the present server is ahead of `now`, plus SKEW. */
byte server = SKEW;
byte tokens = 0, turns = 0, eras = 1, quarantines = 0;
bool copied = false, putBack = false, cloned = false, forced = false, ended = false, failed = false;
byte number[ERAS];   /* of each era */

/* An operator has ended the last quarantine, whose end is later than any clock in this model. */
#ifdef ENDED
#define AHEAD (TICKS + WINDOW)
byte top = 0;        /* no part of the system: the highest fence that was granted, */
byte floors[ERAS];   /* and that at the begin of each era */
#endif

/* No part of the system: the tokens that used a tick, as bits, those that were excused, and those that were sure. A copy has bit 7. */
byte users[TICKS], excused[TICKS], sures[TICKS];
byte newer = 0;      /* tokens with a receipt that is newer than the copy of the store, as bits */
bool told = false;   /* since the store was put back, it was shown evidence, */
bool found = false;  /* and began a quarantine by it */
byte bound = 2;      /* answers after which the other one of two copies has none */
byte copiedToken, copiedFence, copiedUntil;
byte copyBits;       /* of both copies */

#if SKEW > 0
#define registry (now + server - SKEW)
/* A holder's clock differs from that of the server that it asks, or asked last. */
#define serverOf(i) (now - SKEW + (holder[i].granted && !holder[i].answered -> SKEW : server))
#define readClock(i) if :: clock = serverOf(i) - SKEW :: clock = serverOf(i) + SKEW fi
#else
#define registry now
#define readClock(i) clock = now
#endif
#define isRefused(c) ((c) + OLD < registry || (c) > registry + OLD)
#ifdef TWO
#define here store[s]
#define choose() if :: s = 0 :: s = 1 fi
#else
#define here store[0]
#define choose() skip
#endif
#ifdef COPIES
#define isCopy(i) (cloned && holder[i].token == copiedToken && holder[i].fence == copiedFence)
#define mayClaim(i) ((i) != 2)
#define bitOf(i) (cloned && (i) == 2 -> 128 : BIT(holder[i].token))
#ifdef SNAPSHOT
#define isExcused(i) ((i) == 2 && isCopy(i) && holder[i].answers < bound)
#else
#define isExcused(i) (isCopy(i) && holder[i].answers < bound)
#endif
#else
#define mayClaim(i) true
#define bitOf(i) BIT(holder[i].token)
#define isExcused(i) (holder[i].forgotten && !holder[i].answered)
#endif

#if HOLDERS > 2
#define isAnyForgotten (holder[0].forgotten || holder[1].forgotten || holder[2].forgotten)
#else
#define isAnyForgotten (holder[0].forgotten || holder[1].forgotten)
#endif

/* Answers, as the stories tell them. NONE: the request is refused for the time being. */
#define NONE 0
#define RENEWED 1
#define QUARANTINED 2
#define LOST 3
#define CLONED 4
byte answer; bool evidence, proof, older, turnFits, match;
byte i, s, t, mask, clock;

inline reset() {
  answer = NONE; evidence = false; proof = false; older = false; turnFits = false; match = false; i = 0; s = 0; t = 0; mask = 0; clock = 0
}

inline copyRecord(a, b) {
  b.fence = a.fence; b.token = a.token; b.from = a.from; b.until = a.until; b.n = a.n; b.turn = a.turn; b.era = a.era
}

inline copyStore(a, b) {
  copyRecord(a.record, b.record); b.era = a.era; b.quarantineEnd = a.quarantineEnd; b.opened = a.opened
}

inline copyReceipt(a, b) {
  b.fence = a.fence; b.token = a.token; b.until = a.until; b.n = a.n; b.era = a.era
}

inline copyHolder(a, b) {
  copyReceipt(a, b); b.granted = a.granted; b.from = a.from;
  b.turn = a.turn; b.next = a.next; b.renewed = a.renewed; b.sent = a.sent; b.used = a.used
}

inline clearReceipt(r) { r.fence = 0; r.token = 0; r.until = 0; r.n = 0; r.era = 0 }

inline clear(h) {
  clearReceipt(h); h.granted = false; h.from = 0;
  h.turn = 0; h.next = 0; h.renewed = false; h.sent = 0; h.used = 0;
  h.forgotten = false; h.answered = false; h.sure = false; h.last = 0; h.answers = 0;
#ifdef SNAPSHOT
  h.jumped = false
#endif
}

/* isForgotten: whether a registry that has this record has forgotten what the receipt r proves. */
#define isRecordForgotten(rec, r) (rec.fence < r.fence || (rec.fence == r.fence && ((rec.token != r.token && rec.token != 0) || rec.n < r.n)))
/* Two eras that began by themselves can have the same number. */
#define isLater(r, st) (number[r.era] > number[st.era] || (number[r.era] == number[st.era] && r.era != st.era))
#define isForgotten(st, r) (isLater(r, st) || isRecordForgotten(st.record, r))
#ifdef NO_OWN_RECORD
#define contradicts(st, r) isLater(r, st)
#else
#ifdef UNTIL_FOR_N
#define contradicts(st, r) (isLater(r, st) || st.record.fence < r.fence || (st.record.fence == r.fence && ((st.record.token != r.token && st.record.token != 0) || (st.record.token != 0 && st.record.until < r.until))))
#else
#ifdef FORCED_COUNTS
#define contradicts(st, r) (isLater(r, st) || st.record.fence < r.fence || (st.record.fence == r.fence && (st.record.token != r.token || st.record.n < r.n)))
#else
#ifdef LATER_IGNORED
#define contradicts(st, r) isRecordForgotten(st.record, r)
#else
#define contradicts(st, r) isForgotten(st, r)
#endif
#endif
#endif
#endif

inline judge(r) {
  evidence = contradicts(here, r);
  proof = isForgotten(here, r)
}

/* Whether evidence counts beside this era row (isUncovered). */
#ifdef COVERED_COUNTS
#define isUncovered(st, r) true
#else
#ifdef BEYOND_COVERED
#define isUncovered(st, r) (r.era == st.era || isLater(r, st))
#else
#ifdef LATER_COVERED
#define isUncovered(st, r) (r.era == st.era || r.until > st.quarantineEnd)
#else
#define isUncovered(st, r) (r.era == st.era || isLater(r, st) || r.until > st.quarantineEnd)
#endif
#endif
#endif

/* nextEra, without or with a receipt: its end and its era's number. */
inline nextEra(end, above) {
  eras++;
  number[eras] = MAX(registry, MAX(number[here.era], above) + 1);
  here.era = eras;
  here.opened = MAX(MAX(here.opened, registry + LENGTH), end);
  here.quarantineEnd = MAX(here.quarantineEnd, here.opened);
#ifdef ENDED
  floors[eras] = top;
#endif
  printf("%d: store %d is in quarantine until %d, era %d\n", now, s, here.opened, number[eras])
}

inline begin(r) {
#ifndef NO_QUARANTINE
#ifndef TWO
  if
  :: isLater(r, here)
  :: else -> quarantines++
  fi;
  assert(quarantines <= putBack && putBack);
  found = true;
#endif
  nextEra(r.until, number[r.era]);
#endif
  skip
}

inline act(r) {
  if
  :: evidence && isUncovered(here, r) -> begin(r)
  :: else
  fi;
  if
  :: proof && putBack -> told = true
  :: else
  fi
}

#ifdef NO_TURNS
#define fits(r) true
#else
#define fits(r) (here.record.turn == 0 || here.record.turn == r.turn || here.record.turn == r.next || (r.sent & BIT(here.record.turn)))
#endif

/* Another claim of the worker ID may use what the receipt allows (doubtAbout). */
#define isDoubled (here.record.until > clock || here.record.until + SKEW > registry)

/* The record alone shows that others may have used ticks before t (overlapOf). */
#define isOthers(r) (here.record.fence > r.fence || here.record.token != 0)
#define overlaps(r) (here.record.fence >= r.fence && ((isOthers(r) && here.record.from < t) || (!isOthers(r) && here.record.until < t)))

/* lostBeside: where no claim stands, the window closes up to t, the end of what the holder of r may have used. */
inline closeBeside(r) {
  if
  :: !evidence && overlaps(r) && here.record.token == 0 ->
#ifndef DOUBLE_STAYS_OPEN
     here.record.until = MAX(here.record.until, t);
#endif
     if :: putBack -> told = true :: else fi
  :: else
  fi
}

/* A renewal by r, sent at `clock`. */
inline renew(r) {
  judge(r);
  act(r);
  match = here.record.fence == r.fence && here.record.token == r.token;
  older = here.record.era != here.era;
  turnFits = fits(r);
  if
  :: !match && ((
#ifdef STRANGER_WAITS
       registry >= here.opened &&
#endif
       !evidence)
#ifndef DOUBLE_GOES_ON
       || (evidence && isDoubled)
#endif
     ) -> answer = LOST; t = r.until; closeBeside(r)
  :: else ->
     if
     :: isRefused(clock)
     :: !isRefused(clock) && registry < here.opened -> answer = QUARANTINED
     :: !isRefused(clock) && registry >= here.opened && !match -> answer = LOST
     :: !isRefused(clock) && registry >= here.opened && match ->
        if
#ifdef TURNS_OF_OLD_ERAS
        :: !turnFits -> answer = CLONED
#else
        :: !turnFits && !older -> answer = CLONED
#endif
        :: else ->
           answer = RENEWED;
           if
           :: TURNS > 0 && here.record.turn == r.next && !older && here.record.until > MAX(registry, clock) /* a repeat */
           :: else ->
              here.record.n = MAX(here.record.n, r.n) + 1;
              here.record.turn = r.next;
              here.record.until = MAX(MAX(here.record.until, r.until), MAX(registry, clock) + WINDOW);
#ifndef FROM_KEPT
              if
              :: older -> here.record.from = MAX(here.record.from, here.opened)
              :: else
              fi;
#endif
              here.record.era = here.era
           fi
        fi
     fi
  fi
}

#ifdef COPIES
#define isCopyOfAnswered(i) (isCopy(i) && isCopy(2 - i) && holder[2 - i].answers >= bound)
#endif

/* What the record says reaches holder i. */
inline take() {
  holder[i].granted = true; holder[i].fence = here.record.fence;
#ifdef COPIES
  if
  :: cloned && copiedFence == 0 && holder[i].token == copiedToken -> copiedFence = holder[i].fence
  :: else
  fi;
  assert(!isCopyOfAnswered(i));
#endif
  holder[i].from = MAX(holder[i].from, here.record.from);
  holder[i].until = MAX(holder[i].until, here.record.until);
  holder[i].n = here.record.n; holder[i].era = here.era;
  holder[i].turn = here.record.turn; holder[i].next = 0; holder[i].renewed = false; holder[i].sent = 0;
  holder[i].forgotten = false; holder[i].answered = putBack;
#ifdef RESTORE
  if :: copied && !putBack -> newer = newer | BIT(holder[i].token) :: else fi;
#endif
#ifdef COPIES
  if
  :: isCopy(i) -> holder[i].answers = (holder[i].answers == 0 && now < copiedUntil -> 1 : 2)
  :: else
  fi;
#endif
#ifdef TWO
  holder[i].last = s;
#endif
#ifdef ENDED
  /* Until it is shown evidence, a store that was put back cannot know those that it forgot. */
  assert(holder[i].n > 0 || holder[i].fence > floors[here.era]);
  top = MAX(top, holder[i].fence);
#endif
  holder[i].sure = told
}

/* Holder i ends, and its process remembers the receipt. */
inline remember() {
#ifdef RECALL
  copyReceipt(holder[i], recall);
#endif
  clear(holder[i])
}

/* The answer to a renewal reaches holder i. */
inline hear() {
  if :: answer != NONE -> holder[i].answered = putBack :: else fi;
  printf("%d: holder %d hears %d\n", now, i, answer);
  if
  :: answer == RENEWED -> take()
#ifdef TWO
  :: answer == QUARANTINED && s != holder[i].last -> holder[i].sure = true
#endif
  :: answer == LOST -> remember()
  :: answer == CLONED -> assert(cloned || (putBack && OLD > SKEW) || STORES == 2); remember()
  :: else
  fi
}

/* The turn that the next renewal names. It is drawn anew once after the window has passed. */
#ifdef KEPT_FOR_EVER
#define isStale(i) false
#else
#define isStale(i) (holder[i].next != 0 && !holder[i].renewed && holder[i].until <= clock)
#endif
#define mayDraw (turns < TURNS)

inline draw() {
#ifdef SENT_FORGOTTEN
  holder[i].sent = 0;
#else
#ifdef ONE_SENT
  holder[i].sent = 0;
#endif
  if
  :: holder[i].next != 0 -> holder[i].sent = holder[i].sent | BIT(holder[i].next)
  :: else
  fi;
#endif
  turns++; holder[i].next = turns; holder[i].renewed = holder[i].until <= clock
}

inline useTick() {
  t = clock;
  printf("%d: holder %d (token %d) uses tick %d\n", now, i, holder[i].token, t);
#ifdef COPIES
  mask = users[t] & ~(isCopy(i) -> copyBits : bitOf(i));
#else
  mask = users[t];
#endif
  if
  :: mask != 0 ->
#ifndef TWO
     assert(isExcused(i) || (mask & ~excused[t]) == 0);
     assert(!found || t < here.opened);
#endif
     assert(!holder[i].sure && (mask & sures[t]) == 0)
  :: else
  fi;
  users[t] = users[t] | bitOf(i);
  if :: isExcused(i) -> excused[t] = excused[t] | bitOf(i) :: else fi;
  if :: holder[i].sure -> sures[t] = sures[t] | bitOf(i) :: else fi;
  holder[i].used = MAX(holder[i].used, t + 1)
}

#ifdef RECALL
#define bears(c) (recall.token != 0 && recall.until > (c))
#endif

/* Holder i claims, with or without the receipt of an earlier claim. */
inline claim(withRecall) {
  if
  :: holder[i].token == 0 -> tokens++; holder[i].token = tokens
  :: else
  fi;
#ifdef RECALL
  if
  :: withRecall ->
     judge(recall);
#ifdef RECALL_IGNORED
     evidence = false;
#endif
     act(recall)
  :: else
  fi;
#endif
  if
  :: registry < here.opened || isRefused(clock)
  :: else ->
     if
     :: here.record.token == holder[i].token ->
#ifdef CLAIM_REPEATED
        answer = RENEWED;
#else
        answer = (here.record.turn != 0 -> CLONED : RENEWED);
#endif
#ifndef GRANT_KEPT
        if
        :: here.record.era != here.era -> answer = LOST
        :: else
        fi
#else
        skip
#endif
     :: here.record.token != holder[i].token && here.record.until <= MIN(registry, clock) ->
#ifdef FENCE_KEPT
        here.record.fence = here.record.fence + 1;
#else
        here.record.fence = MAX(here.record.fence, here.opened) + 1;
#endif
        here.record.token = holder[i].token;
        here.record.from = MAX(MAX(here.record.until, registry - SKEW), here.opened);
        here.record.until = MAX(MAX(registry, clock), here.record.from) + WINDOW;
        here.record.n = 0; here.record.turn = 0; here.record.era = here.era;
        answer = RENEWED
     :: else
     fi
  fi;
  printf("%d: holder %d claims with token %d: answer %d [%d, %d)\n", now, i, holder[i].token, answer, here.record.from, here.record.until)
}

#if !defined(SNAPSHOT) || defined(JUMP_CLEAN)
#define knowsUse(i) true
#else
#ifdef RENEWED_CLEAN
#define knowsUse(i) (!holder[i].jumped || holder[i].answers > 0)
#else
#define knowsUse(i) (!holder[i].jumped)
#endif
#endif

inline giveBack() {
  judge(holder[i]);
  act(holder[i]);
  match = here.record.fence == holder[i].fence && here.record.token == holder[i].token;
  older = here.record.era != here.era;
  turnFits = fits(holder[i]);
  printf("%d: holder %d gives back, used %d\n", now, i, holder[i].used);
  if
  :: match && (turnFits || evidence || older) ->
     here.record.token = 0;
     here.record.until = MAX(here.record.until, holder[i].until);
     if
     :: !evidence && !older && !(here.record.fence <= here.quarantineEnd && holder[i].used < here.opened) && knowsUse(i) ->
        here.record.until = MIN(here.record.until, MAX(here.record.from, holder[i].used))
     :: else
     fi
  :: !match ->
     t = holder[i].until;
     if
     :: knowsUse(i) -> t = MIN(t, MAX(holder[i].from, holder[i].used))
     :: else
     fi;
     closeBeside(holder[i])
  :: else
  fi;
  clear(holder[i])
}

active proctype World() {
  atomic {
    store[0].era = 1;
#ifdef ENDED
    store[0].quarantineEnd = AHEAD;
#endif
#ifdef TWO
    store[1].era = 1;
#endif
  }
end:
  do
  :: d_step {
       now < LAST ->
       users[now - 2 * SKEW] = 0; excused[now - 2 * SKEW] = 0; sures[now - 2 * SKEW] = 0;
       now++
     }

  :: atomic {
       select(i : 0 .. HOLDERS - 1);
       readClock(i);
       if
       :: d_step {
            holder[i].granted && clock >= holder[i].from && clock < holder[i].until && clock + 1 >= holder[i].used && !(users[clock] & bitOf(i)) ->
            useTick(); reset()
          }
       :: else -> d_step { reset() }
       fi
     }

  /* Its answer may be lost: the holder asks again, with its token. */
  :: atomic {
       select(i : 0 .. HOLDERS - 1);
       if
       :: !holder[i].granted && (holder[i].token != 0 || (tokens < CLAIMS && mayClaim(i))) ->
          choose(); readClock(i);
          if
          :: d_step { true -> claim(false) }
#ifdef RECALL
          :: d_step { bears(clock) -> claim(true) }
#endif
          fi;
          if
          :: d_step { answer == RENEWED -> take(); reset() }
          :: d_step { answer == CLONED -> assert(cloned); clear(holder[i]); reset() }
          :: d_step { answer == LOST -> clear(holder[i]); reset() }
          :: d_step { reset() }
          fi
       :: else -> i = 0
       fi
     }

  /* The request may be lost, or its answer. */
  :: atomic {
       select(i : 0 .. HOLDERS - 1);
       choose(); readClock(i);
       if
       :: holder[i].granted && (TURNS == 0 -> here.record.n < RENEWALS : (holder[i].next != 0 && !isStale(i)) || mayDraw) ->
          d_step {
            if
            :: TURNS > 0 && (holder[i].next == 0 || isStale(i)) -> draw()
            :: else
            fi
          }
#ifdef LATE
          if
          :: d_step { !lateSent -> lateSent = true; lateAt = clock; copyHolder(holder[i], late) }
          :: true
          fi;
#endif
          if
          :: d_step { renew(holder[i]); hear(); reset() }
          :: d_step {
               renew(holder[i]);
               printf("%d: holder %d does not hear %d\n", now, i, answer);
               reset()
             }
          :: d_step { reset() }
          fi
       :: else -> d_step { reset() }
       fi
     }
#ifdef LATE
  :: d_step {
       lateSent && late.token != 0 ->
       printf("%d: a renewal of token %d comes once more\n", now, late.token);
       clock = lateAt; renew(late); clear(late); reset()
     }
#endif
#ifdef JUMPS
  :: atomic {
       select(i : 0 .. HOLDERS - 1);
       readClock(i);
       if
       :: d_step { holder[i].next != 0 && mayDraw -> printf("%d: the clock of holder %d jumps\n", now, i); draw(); reset() }
       :: else -> d_step { reset() }
       fi
     }
#endif

  :: atomic {
       select(i : 0 .. HOLDERS - 1);
       if
       :: holder[i].granted ->
          choose();
          if
          :: d_step { giveBack(); reset() }
          :: d_step { printf("%d: holder %d dies\n", now, i); remember(); reset() }
          fi
       :: else -> i = 0
       fi
     }

#ifdef STEPS
  :: atomic {
       shown.token == 0;
       select(i : 0 .. HOLDERS - 1);
       if
       :: d_step {
            holder[i].granted && contradicts(store[0], holder[i]) && isUncovered(store[0], holder[i]) ->
            copyReceipt(holder[i], shown); copyRecord(store[0].record, read); readEra = store[0].era; reset()
          }
#ifdef LAGGING
       :: d_step {
            copied && holder[i].granted && contradicts(copy, holder[i]) && isUncovered(copy, holder[i]) ->
            copyReceipt(holder[i], shown); copyRecord(copy.record, read); readEra = copy.era; reset()
          }
#endif
       :: d_step { reset() }
       fi
     }
  :: d_step {
       shown.token != 0 ->
       evidence = true;
#ifndef LAGGING_COUNTS
       evidence = (read.fence == here.record.fence && read.token == here.record.token && read.from == here.record.from &&
         read.until == here.record.until && read.n == here.record.n && read.turn == here.record.turn && read.era == here.record.era);
#ifndef ERA_NOT_LOOKED_AT
       evidence = evidence && readEra == here.era;
#endif
#endif
       if
       :: evidence -> begin(shown); told = putBack
       :: else
       fi;
       clearReceipt(shown); clearReceipt(read); read.from = 0; read.turn = 0; readEra = 0; reset()
     }
#endif
#ifdef FORCED
  :: d_step {
       !forced && here.record.token != 0 && registry >= here.opened ->
       printf("%d: an operator ends the claim with token %d\n", now, here.record.token);
       forced = true; here.record.token = 0
     }
#endif
#if defined(RESTORE) || defined(LAGGING)
  :: d_step { !copied -> printf("%d: a copy of the store is made\n", now); copied = true; copyStore(store[0], copy) }
#endif
#ifdef RESTORE
  /* On another server, it may be, with another clock. */
  :: atomic {
       copied && !putBack;
#if SKEW > 0
#ifdef BEHIND
       server = 0;
#else
       if :: server = 0 :: server = SKEW :: server = 2 * SKEW fi;
#endif
#endif
       d_step {
         printf("%d: the copy of the store is put back\n", now);
         putBack = true; copyStore(copy, store[0]);
         for (t : 0 .. TICKS - 1) { excused[t] = users[t] & newer }
         for (i : 0 .. HOLDERS - 1) { holder[i].forgotten = (holder[i].token != 0 && (newer & BIT(holder[i].token)) != 0) }
         newer = 0; reset()
       }
     }
#endif
#ifdef FAILOVER
  :: d_step { !failed && !putBack -> failed = true; nextEra(0, 0); reset() }
#endif
#ifdef END
  /* The operator says that those whose windows the store forgot have ended. */
  :: d_step {
       found && !ended && registry < here.opened && !isAnyForgotten ->
       printf("%d: an operator ends the quarantine\n", now);
       ended = true;
#ifdef ENDED_AT_ONCE
       here.opened = registry;
#else
#ifdef ENDED_EARLY
       here.opened = MIN(here.opened, registry + SKEW + 1);
#else
       here.opened = MIN(here.opened, registry + 2 * SKEW + 1);
#endif
#endif
#ifdef END_LOWERS
       here.quarantineEnd = here.opened
#endif
     }
#endif
#ifdef SNAPSHOT
  :: d_step {
       !taken && holder[0].token != 0 ->
       printf("%d: a snapshot is taken of the machine of holder 0\n", now);
       taken = true; takenAt = now; copyHolder(holder[0], snapshot)
     }
  :: d_step {
       taken && !cloned && takenAt < now ->
       printf("%d: the machine is put back to the snapshot\n", now);
       cloned = true; copyHolder(snapshot, holder[2]);
       holder[2].jumped = true;
       copiedToken = snapshot.token; copiedFence = snapshot.fence; copyBits = BIT(copiedToken) | 128;
       clear(holder[0]); clear(snapshot)
     }
#else
#ifdef COPIES
  :: d_step {
       !cloned && holder[0].token != 0 ->
       printf("%d: holder 0 is copied\n", now);
       cloned = true; copyHolder(holder[0], holder[2]);
       copiedToken = holder[0].token; copiedFence = holder[0].fence; copyBits = BIT(copiedToken) | 128;
       bound = (holder[0].granted && holder[0].next == 0 -> 1 : 2);
       /* Where no turn is drawn anew after it, it says nothing. */
       copiedUntil = (holder[0].granted && !holder[0].renewed -> holder[0].until : 255)
     }
#endif
#endif
  od
}
