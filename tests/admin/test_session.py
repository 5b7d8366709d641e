"""Sessions of the dashboard: how they begin, how long they last, and how many there are."""

from __future__ import annotations

from gateway.admin.session import IDLE_SECONDS, LIFE_SECONDS, MAX_OF_USER, MAX_SESSIONS, Sessions


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_found_by_what_the_browser_keeps_and_by_nothing_else() -> None:
    sessions = Sessions()
    secret = sessions.start("alice")
    found = sessions.find(secret)
    assert found is not None
    assert found.user == "alice"
    assert found.owns(found.csrf)
    assert not found.owns("")
    assert not found.owns(secret)
    assert not found.owns("ü")
    assert sessions.find("") is None
    assert sessions.find(secret + "x") is None
    assert sessions.find("\udcff") is None


def test_two_sessions_of_a_user_have_marks_of_their_own() -> None:
    sessions = Sessions()
    one, other = sessions.find(sessions.start("alice")), sessions.find(sessions.start("alice"))
    assert one is not None
    assert other is not None
    assert not one.owns(other.csrf)


def test_an_unused_session_ends_and_a_used_one_ends_too() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    idle, busy = sessions.start("alice"), sessions.start("alice")
    for _ in range(int(LIFE_SECONDS / IDLE_SECONDS) * 2):
        clock.now += IDLE_SECONDS / 2
        assert sessions.find(busy) is not None
    assert sessions.find(idle) is None
    clock.now += IDLE_SECONDS / 2
    assert sessions.find(busy) is None
    assert len(sessions) == 0


def test_who_signs_out_is_out() -> None:
    sessions = Sessions()
    secret = sessions.start("alice")
    sessions.end(secret)
    sessions.end(secret)
    assert sessions.find(secret) is None


def test_a_user_who_signs_in_for_ever_loses_the_oldest_of_his_own() -> None:
    sessions = Sessions()
    other = sessions.start("bob")
    mine = [sessions.start("alice") for _ in range(MAX_OF_USER + 1)]
    assert sessions.find(mine[0]) is None
    assert all(sessions.find(secret) for secret in (other, *mine[1:]))


def test_there_is_an_end_to_all_sessions() -> None:
    sessions = Sessions()
    secrets = [sessions.start(f"user-{number}") for number in range(MAX_SESSIONS + 1)]
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(secrets[0]) is None
    assert sessions.find(secrets[-1]) is not None
