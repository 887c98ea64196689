"""Keys of open requests: which of them are told that they are revoked."""

import asyncio

from checkrail.engine.values import User
from checkrail.server.auth import Caller, KeyWatch


class Keys:
    """A database in which some keys are in force, and that can be slow."""

    def __init__(self, **roles):
        self.roles = roles
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    async def read(self, _query):
        found = dict(self.roles)
        self.asked.set()
        await self.answers.wait()
        return found


def caller(key_id, role="member"):
    return Caller(User("ann"), role, key_id=key_id)


async def test_a_request_that_is_opened_while_keys_are_looked_up_is_not_taken_for_revoked():
    keys = Keys(old="member")
    watch = KeyWatch(keys, None)
    with watch.watch_key(caller("old")) as old:
        looking = asyncio.create_task(watch._check())
        await keys.asked.wait()
        keys.roles["new"] = "member"
        with watch.watch_key(caller("new")) as new:
            keys.answers.set()
            await looking
            assert not old.done()
            assert not new.done()


async def test_keys_that_are_gone_or_have_another_role_end_their_requests_alone():
    keys = Keys(same="member", other="viewer")
    keys.answers.set()
    watch = KeyWatch(keys, None)
    with (
        watch.watch_key(caller("same")) as same,
        watch.watch_key(caller("other", "admin")) as other,
        watch.watch_key(caller("gone")) as gone,
        watch.watch_key(caller(None)) as without,
        watch.watch_key(None) as nobody,
    ):
        await watch._check()
        done = [each.done() for each in (same, other, gone, without, nobody)]
        assert done == [False, True, True, False, False]
    assert not watch._open
