"""How many files a message may have, how large, and of which types."""

import pytest

from checkrail import HookRegistry, InboundMessage
from checkrail.builtin import attachment_limits


def file(size=1000, content_type="image/png", name="a.png"):
    told = {"name": name, "content_type": content_type, "size": size}
    return {key: value for key, value in told.items() if value is not ...}


async def fire(attachments, **config):
    registry = HookRegistry()
    registry.register(attachment_limits, config=config)
    message = InboundMessage("ann", "web", "Look", attachments=attachments)
    return await registry.fire("before_inbound", message)


LIMITS = {"max_count": 2, "max_size": "1 kB", "types": ["image/*", "application/pdf"]}


@pytest.mark.parametrize(
    "attachments",
    [
        [],
        [file()],
        [file(), file(0, "application/pdf")],
        [file(content_type="IMAGE/JPEG; q=1")],
        [file(size=999.5)],
    ],
)
async def test_what_is_within_the_limits_passes(attachments):
    assert (await fire(attachments, **LIMITS)).decision == "continue"


@pytest.mark.parametrize(
    ("attachments", "status", "told"),
    [
        ([file()] * 3, 413, "there are 3 attachments, and 2 are the limit"),
        ([file(1001)], 413, "the attachment 'a.png' has 1001 bytes, and 1000 are the limit"),
        ([file(1000.5)], 413, "has 1001 bytes"),
        ([file(), file(content_type="text/html")], 415, "is of the type text/html"),
        ([file(content_type="x/image/png")], 415, "is of the type x/image/png"),
        ([file(content_type="image/png\n")], 200, ""),
        ([file(content_type=...)], 415, "'a.png' has no type"),
        ([file(content_type=None)], 415, "has no type"),
        ([file(content_type=["image/png"])], 415, "has no type"),
        ([file(None)], 413, "the size of the attachment 'a.png' is not known"),
        ([file(...)], 413, "is not known"),
        ([file("12")], 413, "is not known"),
        ([file(True)], 413, "is not known"),
        ([file(-1)], 413, "is not known"),
        ([file(float("nan"))], 413, "is not known"),
        ([file(float("inf"))], 413, "is not known"),
        ([file(None, name=None)], 413, "the attachment without a name"),
        (["a.png"], 415, "the attachment without a name has no type"),
    ],
)
async def test_what_is_beyond_them_is_refused(attachments, status, told):
    verdict = await fire(attachments, **LIMITS)
    if status == 200:
        assert verdict.decision == "continue"
        return
    assert (verdict.decision, verdict.status) == ("block", status)
    assert verdict.code == "attachment_refused"
    assert told in verdict.reason


async def test_all_sizes_together():
    assert (await fire([file(600)] * 2, max_total="1.2 kB")).decision == "continue"
    verdict = await fire([file(600)] * 3, max_total="1.2 kB")
    assert verdict.reason == "the attachments have 1800 bytes, and 1200 are the limit"
    assert (await fire([file(None)], max_total="1.2 kB")).decision == "block"


async def test_unknown_sizes_pass_if_that_is_said():
    assert (await fire([file(None)], max_size=10, unknown_size="allow")).decision == "continue"
    assert (await fire([file(11)], max_size=10, unknown_size="allow")).decision == "block"
    assert (await fire([file(None)], max_count=1)).decision == "continue"


async def test_none_at_all():
    assert (await fire([file()], max_count=0)).decision == "block"
    assert (await fire([], max_count=0)).decision == "continue"


async def test_the_status_may_be_another_one():
    assert (await fire([file(11)], max_size=10, status=400)).status == 400


async def test_the_name_of_a_file_cannot_pass_for_more_than_a_name():
    verdict = await fire([file(11, name="a\nb" * 100)], max_size=10)
    assert "\n" not in verdict.reason
    assert len(verdict.reason) < 300
