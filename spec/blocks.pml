/*
 * One lease for many generators: src/sharing/shared-allocator.ts. A block of a span belongs to whoever took it first, by one exchange of the
 * span's word. The lender ends a claim, tells the registry what was used, and begins the next one, of another worker ID; from
 * then on somebody else has the worker ID before, and uses all of it that was not told. Takers stop for as long as they like
 * between any two reads or writes, and between taking a block and using it.
 *
 * The claim lies in two places: the one that the version tells is read, the other one is written, and then the version is raised.
 * Any thread may end after any step, the lender, too; none of the others waits for it.
 *
 * Checked: no block of a span is used twice under one worker ID, by whomever.
 *
 * Each of these macros breaks the rule in one place, and must be found out:
 *
 *   GENERATION_NOT_LOOKED_AT  a block counts as taken by the exchange alone
 *   GENERATION_LOOKED_BEFORE  the generation is looked at before the exchange, and not after it
 *   WRITTEN_IN_PLACE          the claim is written where it is read, and the version raised afterwards
 *   VERSION_FIRST             the version is raised before the claim is written
 *   GENERATION_LATE           the generation is written after the words are poisoned: when the next claim has filled them
 *   GENERATION_EARLY          the next claim's generation is written before its words
 *   STORED_NOT_EXCHANGED      a block is taken by reading and writing its word
 *   INHERITED_LEFT_OUT        the blocks of what was used before there was a grid are not marked
 *   ONLY_EMITTED_COUNTED      the usage told at the end is the last span of which something was used
 */

/* Fewer words than spans: a word serves several, one after the other. */
#define WORDS 2
#ifndef SPANS
#define SPANS 3
#endif
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef CLAIMS
#define CLAIMS 2
#endif
#define LANES 2
#define ALL 3 /* both blocks, as bits */
#define ENDED 255

#define MAX(a, b) ((a) > (b) -> (a) : (b))
/* A span, counted from 1 so that there is one before the first; and its blocks. */
#define word(span, blocks) ((span) * 4 + (blocks))
#define spanOf(word) ((word) / 4)
#define blocksOf(word) ((word) % 4)

byte words[WORDS];
/* Whether the version is odd: more of it tells nothing, where reading a claim is one step. */
bit version;
/* The generation in each of the two places; 0: no claim. */
byte generations[2];
#define at(version) generations[version]

#if defined(WRITTEN_IN_PLACE)
#define publish(number) at(version) = number; version = 1 - version
#elif defined(VERSION_FIRST)
#define publish(number) version = 1 - version; at(version) = number
#else
#define publish(number) at(1 - version) = number; version = 1 - version
#endif

/* No part of the system: the blocks used of each span, for each claim's worker ID. */
byte used[(CLAIMS + 1) * (SPANS + 1)];
#define usedOf(claim, span) used[(claim) * (SPANS + 1) + (span)]
#ifdef ONLY_EMITTED_COUNTED
byte emitted; /* the newest span of which something was used in this claim */
#endif

proctype Lender() {
  byte number, i, newest;
end:
  do
  :: number < CLAIMS ->
     number++;
     /* begin */
#ifdef GENERATION_EARLY
     publish(number);
#endif
     for (i : 0 .. WORDS - 1) {
       words[i] = word(0, ALL)
     }
#ifndef INHERITED_LEFT_OUT
     words[1] = word(1, 1);
#endif
#ifdef ONLY_EMITTED_COUNTED
     emitted = 0;
#endif
     publish(number);
     printf("claim %d begins\n", number);
     /* write: what a renewal has made of it, in the other place */
     if
     :: number == 1 -> publish(number)
     :: true
     fi;
     /* end */
#ifndef GENERATION_LATE
     publish(0);
#endif
     newest = 0;
     for (i : 0 .. WORDS - 1) {
       atomic {
         if
         :: words[i] != ENDED -> newest = MAX(newest, spanOf(words[i]))
         :: else
         fi;
         words[i] = ENDED
       }
     }
     atomic {
#ifdef ONLY_EMITTED_COUNTED
       newest = emitted;
#endif
       /* Never before the window's begin, which lies behind what was inherited: ledger.ts, seal. */
       newest = MAX(newest, 1);
       printf("claim %d ends: used up to span %d\n", number, newest);
       for (i : newest + 1 .. SPANS) {
         assert(usedOf(number, i) == 0);
         usedOf(number, i) = ALL
       }
       i = 0; newest = 0
     }
  :: number == CLAIMS -> break
  od
}

proctype Taker(byte me) {
  byte mine;   /* the generation of the claim that it has read */
  byte seen, span, blocks;
  bit look;    /* a version that it has read */
end:
  do
  :: /* read: what lies in the place of one version, before and after which that was the version. Until then nothing is written there. */
     atomic { at(version) > 0 && at(version) != mine -> mine = at(version) }
  :: mine > 0 ->
     /* take */
     atomic {
       select(span : 1 .. SPANS);
       seen = words[span % WORDS];
       if
       :: spanOf(seen) > span -> span = 0; seen = 0; goto end
       :: spanOf(seen) == span -> blocks = blocksOf(seen)
       :: else -> blocks = 0
       fi;
       if
       :: blocks == ALL -> span = 0; seen = 0; blocks = 0; goto end
       :: else -> blocks = ((blocks & 1) == 0 -> 1 : 2)
       fi
     }
#ifdef GENERATION_LOOKED_BEFORE
     look = version;
     if
     :: at(look) == mine
     :: else -> atomic { look = 0; span = 0; seen = 0; blocks = 0; goto end }
     fi;
#endif
     atomic {
       if
#ifdef STORED_NOT_EXCHANGED
       :: true ->
#else
       :: words[span % WORDS] == seen ->
#endif
          words[span % WORDS] = word(span, (spanOf(seen) == span -> blocksOf(seen) : 0) | blocks);
          printf("taker %d exchanges for block %d of span %d\n", me, blocks - 1, span);
          seen = 0
       :: else -> span = 0; seen = 0; blocks = 0; goto end
       fi
     }
#ifndef GENERATION_LOOKED_BEFORE
#ifndef GENERATION_NOT_LOOKED_AT
     look = version;
     if
     :: at(look) == mine
     :: else -> atomic { look = 0; span = 0; blocks = 0; goto end }
     fi;
#endif
#endif
     d_step {
       printf("taker %d uses block %d of span %d in claim %d\n", me, blocks - 1, span, mine);
       assert((usedOf(mine, span) & blocks) == 0);
       usedOf(mine, span) = usedOf(mine, span) | blocks;
#ifdef ONLY_EMITTED_COUNTED
       emitted = MAX(emitted, span);
#endif
       look = 0; span = 0; blocks = 0
     }
  od
}

init {
  byte i;
  atomic {
    /* Block 0 of the first span was used by the holder before, whose recents are continued. */
    for (i : 1 .. CLAIMS) {
      usedOf(i, 1) = 1
    }
    for (i : 0 .. WORDS - 1) {
      words[i] = ENDED
    }
    for (i : 1 .. TAKERS) {
      run Taker(i)
    }
    i = 0;
    run Lender()
  }
}
