"""Entries that are kept as long as they are used."""

from checkrail.recent import RecentEntries


def test_the_one_that_was_not_used_for_the_longest_time_goes_first():
    entries = RecentEntries(2)
    assert entries.put("a", 1) == entries.put("b", 2) == []
    assert entries.get("a") == 1
    assert entries.put("c", 3) == [2]
    assert (entries.get("b", "none"), entries.get("a"), entries.get("c")) == ("none", 1, 3)


def test_an_entry_that_is_put_again_is_replaced():
    entries = RecentEntries(2)
    entries.put("a", 1)
    assert entries.put("a", 2) == [1]
    assert entries.get("a") == 2


def test_a_dropped_entry_is_gone_and_may_be_dropped_again():
    entries = RecentEntries(2)
    entries.put("a", 1)
    entries.drop("a")
    entries.drop("a")
    assert entries.get("a") is None
