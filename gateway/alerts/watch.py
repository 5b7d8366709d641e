"""The config's ``alerts``, compiled: every text of an operator read once, every fault of it found at load."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.alerts.norm import Terms
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError, Problem
from gateway.model.call import Target
from gateway.policy.hours import Hours, HoursError, parse_hours
from gateway.policy.selectors import Selector, SelectorError, any_matches, parse_selector


@dataclass(frozen=True, slots=True)
class Watch:
    """What to tell of, and the addresses to tell it to, which are secrets."""

    terms: Terms
    hours: Hours
    sensitive: tuple[Selector, ...]
    to: tuple[str, ...]

    def is_sensitive(self, target: Target) -> bool:
        """Whether every call of a target is told."""
        return any_matches(self.sensitive, target)

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Watch:
        """Compile the section.

        Raises:
            ConfigError: a selector or the hours cannot be read; it lists all of them.
        """
        section = loaded.config.alerts
        problems: list[Problem] = []
        selectors: list[Selector] = []
        hours = Hours()
        try:
            hours = parse_hours(section.hours)
        except HoursError as fault:
            problems.append(Problem(str(fault), path="alerts.hours"))
        for index, text in enumerate(section.sensitive):
            try:
                selectors.append(parse_selector(text))
            except SelectorError as fault:
                problems.append(Problem(str(fault), path=f"alerts.sensitive[{index}]"))
        if problems:
            raise ConfigError(problems)
        rate = section.rate
        to = tuple(dict.fromkeys(url.get_secret_value() for url in section.to))
        return cls(Terms(rate.factor, rate.window, rate.min), hours, tuple(selectors), to)
