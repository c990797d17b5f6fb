"""What schemathesis cannot know: why a request that fits the description may be refused all the same."""

import re

import schemathesis
from schemathesis import GenerationMode

# Rules of the layout of a namespace, of its limits, and between two fields.
KNOWN = [
    r"`(workerId|pool\.first|pool\.last)` to be an integer from \d+ to \d+(,| \(\d+ bits\))",
    r"`(workerId|lastWorkerId|preferred)` .* (pool|layout)",
    r"`lastSequence` to be an integer from 0 to \d+ \(the layout's\)",
    r"`pool` to have `first` <= `last`",
    r"`\w+` to be at least \d+ ms \(\d+ ticks of the layout\)",
    r"`window` to be from 1 to \d+ ms \(the namespace's maxWindow\)",
    r"`layout` to be a preset",
    r"was created with (maxWindow|maxClockSkew) \d+ ms",
    r"checkpoint|`until`|`recent`|`lastTimestamp`",
    r"`nextTurn` to differ from `turn`",
    r"`resetWindow`",
    r"correct the ID",
    r"`usedUntil`|`owner`",
    r"the request names `",
    r"to be pinned",
    # Unknown fields are ignored, but not one whose name is near a known one, as the description says in words.
    r"to have only known fields",
    # A share, of a daemon without `--lend`.
    r"This daemon lends no lease",
]


@schemathesis.check
def refused_for_a_known_reason(_ctx, response, case):
    mode = case.meta.generation.mode if case.meta else None
    if mode is GenerationMode.POSITIVE and response.status_code == 400:
        detail = response.json()["detail"]
        if not any(re.search(known, detail) for known in KNOWN):
            raise AssertionError(f"A request that fits the description was refused: {detail}")
