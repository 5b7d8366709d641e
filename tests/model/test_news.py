"""What servers tell of by themselves."""

from __future__ import annotations

from gateway.model.news import TaskNews
from gateway.protocol import rawjson


def test_news_of_a_task_say_where_they_come_from() -> None:
    state = {"status": rawjson.raw("working")}
    news = TaskNews("a", "pid:1#1", "t-1", state)
    assert news == TaskNews("a", "pid:1#1", "t-1", dict(state))
    assert news != TaskNews("a", "pid:2#1", "t-1", state)
