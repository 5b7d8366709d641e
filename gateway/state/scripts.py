"""What a shared store does in one step: scripts that run there, by that server's clock.

They count exactly like ``gcra``, but for the clock, which has whole microseconds there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from gateway.state.gcra import Allowance

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the digest by which the server knows it."""

    text: str
    sha1: str

    @classmethod
    def of(cls, text: str) -> Script:
        """Return a script with its digest."""
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


# An arrival is a number of microseconds and a number of count-ths of one, each of which a double holds exactly.
# ARGV has five numbers for each key: interval and tolerance, both as whole and rest, and count.
CHARGE: Final = Script.of(
    """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local arrivals, worst, slowest = {}, 0, 0
local function keep(key, held)
  local left = math.ceil((held[1] - now) / 1000) + 1
  redis.call('SET', key, string.format('%.0f:%.0f', held[1], held[2]), 'PX', string.format('%.0f', left))
end
local function sum(held, whole, below, count)
  whole, below = held[1] + whole, held[2] + below
  if below >= count then whole, below = whole + 1, below - count end
  return {whole, below}
end
for i, key in ipairs(KEYS) do
  local a = (i - 1) * 5
  local step, rest = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local early, part, count = tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5])
  local held = arrivals[key]
  if not held then
    local whole, below = string.match(redis.call('GET', key) or '', '^(%d+):(%d+)$')
    held = {tonumber(whole or '0'), tonumber(below or '0')}
    local latest = sum(sum({now, 0}, early, part, count), step, rest, count)
    if held[1] > latest[1] or (held[1] == latest[1] and held[2] > latest[2]) then
      -- Later than any call that passed can have made it: the clock went back. From now on it is an empty bucket.
      held = latest
      keep(key, held)
    end
  end
  local wait, over = held[1] - early - now, held[2] - part
  if over < 0 then wait, over = wait - 1, over + count end
  if wait > 0 or (wait == 0 and over > 0) then
    if over > 0 then wait = wait + 1 end
    local ms = math.ceil(wait / 1000)
    if ms > worst then worst, slowest = ms, i end
  else
    if held[1] < now then held = {now, 0} end
    held = sum(held, step, rest, count)
  end
  arrivals[key] = held
end
if slowest > 0 then return {slowest - 1, worst} end
for key, held in pairs(arrivals) do keep(key, held) end
return false
"""
)

CLAIM: Final = Script.of(
    """
local held = redis.call('GET', KEYS[1])
if not held then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return held
"""
)


def numbers(allowance: Allowance) -> list[int]:
    """Write interval and tolerance in whole microseconds and count-ths of one, exactly."""
    window = round(allowance.seconds * _MICROSECONDS)
    return [
        *divmod(window, allowance.count),
        *divmod((allowance.burst - 1) * window, allowance.count),
        allowance.count,
    ]
