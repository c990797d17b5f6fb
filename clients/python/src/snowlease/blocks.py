"""The blocks of a lent lease: which sequences of a tick are this process's own."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .errors import SnowleaseError
from .layout import Layout

# The least length of a span, and how far ahead of the clock blocks are prefetched, ms.
_SPAN, _AHEAD = 64, 5000
_MOST_BLOCKS = 32
# For how many spans a caller asks for more blocks.
_MORE_SPANS = 4


class Wanted(NamedTuple):
    """A request for so many blocks of each of `spans` spans from `first` on, of which this process has `held`."""

    first: int
    spans: int
    blocks: int
    held: int


class Blocks:
    """The blocks that one claim has taken of a lent lease: a block is some sequences, of each tick of its span. The thread of the lease asks for
    them and puts them here; all threads use them."""

    def __init__(self, layout: Layout, wake: Callable[[], None]) -> None:
        """`wake`: called by a thread that wants more blocks."""
        self._layout, self._wake = layout, wake
        # How many ticks a span has, a tick has blocks, a block has sequences; and how many spans ahead of the present one are prefetched.
        self.ticks, self.count = -(-_SPAN // layout.tick), min(_MOST_BLOCKS, layout.max_sequence + 1)
        self.size, self.ahead = (layout.max_sequence + 1) // self.count, -(-_AHEAD // (self.ticks * layout.tick))
        # By span. Each tuple is replaced as a whole: so callers need no lock.
        self._held: dict[int, tuple[int, ...]] = {}
        # The last prefetch, and the span after the last one of which it got a block.
        self._prefetched: Wanted | None = None
        self._behind = 0
        # What a caller asks for, until it is answered: one request at a time.
        self.wanted: Wanted | None = None
        # Why the last request failed.
        self.trouble: SnowleaseError | None = None

    def span_of(self, tick: int) -> int:
        return tick // self.ticks

    def of(self, tick: int) -> tuple[int, ...]:
        """The blocks of a tick, in the order in which they came."""
        return self._held.get(self.span_of(tick), ())

    def want(self, tick: int) -> None:
        """The blocks of this tick do not suffice."""
        wanted, span, held = self.wanted, self.span_of(tick), len(self.of(tick))
        # One that nobody asked for in time is of no use any more.
        if wanted is None or not wanted.first <= span < wanted.first + wanted.spans:
            self.wanted = Wanted(span, _MORE_SPANS, max(1, held), held)
        # Also where it is wanted already: the frame below this one, in which a signal's handler runs, may not have come to this yet.
        self._wake()

    def prefetch(self, wall: int) -> Wanted | None:
        """What to ask for before the first ID, and once a second. `wall`: the wall clock, Unix ms."""
        present = max(0, self.span_of(self._layout.tick_of(wall)))
        end = present + self.ahead + 1
        # Behind a clock that was set back there are no blocks yet.
        first = present if self._behind > end else max(present, self._behind)
        self._prefetched = Wanted(first, end - first, 1, 0) if first < end else None
        return self._prefetched

    def read(self, wanted: Wanted, given: Any) -> list[int]:
        """The `blocks` of an answer to this: those of each span, as bits. Raises what is wrong with them."""
        if not isinstance(given, list) or len(given) > wanted.spans:
            raise TypeError("its `blocks` are no list of as many spans as were asked for")
        if not all(type(bits) is int and 0 <= bits < 1 << self.count for bits in given):
            raise ValueError("it gives a block that the layout does not have")
        return given

    def put(self, wanted: Wanted, given: list[int], trouble: SnowleaseError | None = None) -> bool:
        """The answer to this. `trouble`: why it gives nothing; what an answer gave that was lost is nobody's. Returns whether it gives more."""
        taken = {span: bits for span, bits in enumerate(given, wanted.first) if bits}
        end = max(taken, default=wanted.first - 1) + 1
        # Forgets spans that passed long ago: this client may run for years, also without an ID.
        kept = end - 2 * self.ahead - _MORE_SPANS if taken else 0
        held = {span: own for span, own in self._held.items() if span >= kept}
        is_news = False
        for span, bits in taken.items():
            own = held.get(span, ())
            # One that is held already is no second block.
            new = tuple(block for block in range(self.count) if bits >> block & 1 and block not in own)
            held[span], is_news = own + new, is_news or bool(new)
        self._held = held
        self.trouble = trouble
        if wanted is self._prefetched:
            self._behind = end
        if wanted is self.wanted:
            self.wanted = None
        return is_news
