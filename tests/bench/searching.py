"""How long a search among 10,000 tools takes, in processor time: ``python -m tests.bench.searching``."""

from __future__ import annotations

import random
import re
import statistics
import sys
import time
from typing import Final

from gateway.catalog.index import Index
from gateway.model.catalog import Definition, Kind, Route
from gateway.protocol import rawjson

TOOLS: Final = 10_000
TOO_LONG: Final = 0.05
"""Seconds a search may take."""
WORDS: Final = tuple(
    re.findall(
        "[a-z]+",
        "create delete list calendar event issue repository file read write search user message send query table"
        " invoice customer order weather update get channel page note task project pull request branch",
    )
)
QUERIES: Final = (
    "create calendar event",
    "send a message to the channel of my project about the pull request",
    "calend",
    "tool4711",
    "nothing of this kind",
)


def catalog() -> list[Route]:
    """Return tools whose words are nearly all common: the worst there is for an index."""
    dice = random.Random(1)
    routes = []
    for number in range(TOOLS):
        name = f"{'_'.join(dice.sample(WORDS, 2))}_tool{number}"
        described = {"type": "string", "description": " ".join(dice.choices(WORDS, k=8))}
        schema = {"type": "object", "properties": dict.fromkeys(dice.sample(WORDS, 5), described)}
        text = {"name": name, "description": " ".join(dice.choices(WORDS, k=40)), "inputSchema": schema}
        definition = Definition.parse(Kind.TOOL, rawjson.encode(text))
        routes.append(Route(f"server{number % 20}", name, definition, b""))
    return routes


def main() -> int:
    """Measure; 1 where a search takes too long."""
    routes = catalog()
    begun = time.process_time()
    index = Index.of(routes)
    sys.stdout.write(f"index of {TOOLS} tools: {time.process_time() - begun:.2f} s\n")
    slow = 0
    for query in QUERIES:
        times = []
        for _ in range(9):
            begun = time.process_time()
            hits = index.ranked(query)
            times.append(time.process_time() - begun)
        middle = statistics.median(times)
        slow += middle > TOO_LONG
        sys.stdout.write(f"{middle * 1000:6.1f} ms  {len(hits):5} hits  {query}\n")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
