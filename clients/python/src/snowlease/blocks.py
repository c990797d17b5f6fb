"""The blocks of a shared lease: which sequences of a tick are this process's."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

from .errors import SnowleaseError
from .layout import Layout

# The shortest span, and how far ahead of the clock blocks are taken, ms.
_SPAN, _AHEAD = 64, 5000
_MOST_BLOCKS = 32
# For how many spans more blocks are asked for.
_MORE_SPANS = 4


class Share(Protocol):
    """The sequences of a tick that a process may use: `size` of each block, in the order of the blocks."""

    size: int

    def of(self, tick: int) -> Sequence[int]:
        """The blocks of a tick."""

    def want(self, tick: int) -> Optional[SnowleaseError]:
        """Each sequence of these blocks is used. Returns why there are no more, where that is known."""


class Whole:
    """All sequences of each tick, as a lease of one's own has them."""

    def __init__(self, layout: Layout) -> None:
        self.size = layout.max_sequence + 1

    def of(self, tick: int) -> Sequence[int]:
        return (0,)

    def want(self, tick: int) -> Optional[SnowleaseError]:
        return None


class BlocksRequest(NamedTuple):
    """Asks for `blocks` of each of `spans` spans from `first` on, of which the process has `held` already."""

    first: int
    spans: int
    blocks: int
    held: int


class Blocks:
    """The blocks that one claim of a shared lease took. The thread of the lease asks for them and puts them here; all threads use them."""

    def __init__(self, layout: Layout, wake: Callable[[], None]) -> None:
        """`wake`: called where more blocks are wanted."""
        self._layout = layout
        self._ticks = max(1, -(-_SPAN // layout.tick))
        self._count = min(_MOST_BLOCKS, layout.max_sequence + 1)
        self.size = (layout.max_sequence + 1) // self._count
        self._ahead = max(1, -(-_AHEAD // (self._ticks * layout.tick)))
        self._wake = wake
        # By span. Each tuple is replaced as a whole, so that readers need no lock.
        self._held: Dict[int, Tuple[int, ...]] = {}
        # Behind the last span of which a prefetch got a block.
        self._next_span = 0
        # The request of a caller, until it is answered: one at a time.
        self.wanted: Optional[BlocksRequest] = None
        # Why the last request got no answer.
        self.error: Optional[SnowleaseError] = None

    def span_of(self, tick: int) -> int:
        return tick // self._ticks

    def of(self, tick: int) -> Sequence[int]:
        return self._held.get(self.span_of(tick), ())

    def want(self, tick: int) -> Optional[SnowleaseError]:
        if self.wanted is None:
            held = len(self.of(tick))
            self.wanted = BlocksRequest(self.span_of(tick), _MORE_SPANS, max(1, held), held)
            self._wake()
        return self.error

    def prefetch(self, wall: int) -> Optional[BlocksRequest]:
        """What to ask for once a second, and first of all. `wall`: the wall clock, Unix ms."""
        present = self.span_of(self._layout.tick_of(wall))
        end = present + self._ahead + 1
        # After a clock was set back, these are other blocks of the same spans.
        first = present if self._next_span > end else max(present, self._next_span)
        return BlocksRequest(first, end - first, 1, 0) if first < end else None

    def read(self, request: BlocksRequest, json: Mapping[str, Any]) -> List[int]:
        """The blocks of an answer, as bits. Raises TypeError or ValueError where it is none."""
        given = json["blocks"]
        if not isinstance(given, list) or len(given) > request.spans:
            raise TypeError("no list of the blocks of each span")
        if any(type(bits) is not int or not 0 <= bits < 1 << self._count for bits in given):
            raise ValueError("a block that the layout does not have")
        return given

    def put(self, request: BlocksRequest, given: Sequence[int]) -> None:
        """The answer to a request."""
        end = request.first
        for span, bits in enumerate(given, request.first):
            held = self._held.get(span, ())
            # A block that is here already is no new one, whatever a lender says: its IDs would come twice.
            more = tuple(block for block in range(self._count) if bits >> block & 1 and block not in held)
            if more:
                self._held[span] = held + more
            if bits:
                end = span + 1
        self.error = None
        if request is self.wanted:
            self.wanted = None
        else:
            self._next_span = end

    def miss(self, request: BlocksRequest, error: SnowleaseError) -> None:
        """There was no answer to a request. What the lender may have given is lost; another request gets other blocks."""
        self.error = error
        if request is self.wanted:
            self.wanted = None

    def forget_before(self, tick: int) -> None:
        """Forgets the spans before that of the newest tick: no ID is made there any more."""
        span = self.span_of(tick)
        for old in [old for old in self._held if old < span]:
            del self._held[old]
