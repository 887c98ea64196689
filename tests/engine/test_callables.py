"""What can be a hook: every kind of callable, with one parameter or two."""

import asyncio
import functools
import threading

import pytest

from checkrail.engine.errors import HookRefusedError
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.points import Decision
from checkrail.engine.registry import HookRegistry

POINT = "on_result"


def plain(event):
    return Continue([event.value])


def with_value(event, value):
    return Continue([value])


async def coroutine(event):
    return Continue([event.value])


async def coroutine_with_value(event, value):
    await asyncio.sleep(0)
    return Continue([value])


def gives_a_coroutine(event, value):
    return coroutine_with_value(event, value)


def takes_any(*arguments):
    event, value = arguments
    assert event.value is value
    return Continue([value])


def has_an_optional_value(event, value=None):
    return Continue([value])


def has_keywords(event, *, keyword=1, **others):
    return Continue([event.value])


def three(extra, event, value):
    assert extra == "extra"
    return Continue([value])


async def async_three(extra, event, value):
    return Continue([value])


class Callable:
    def __call__(self, event, value):
        return Continue([value])

    def method(self, event):
        return Continue([event.value])

    async def async_method(self, event, value):
        return Continue([value])

    @classmethod
    def class_method(cls, event, value):
        return Continue([value])

    @staticmethod
    async def static_method(event):
        return Continue([event.value])


class AsyncCallable:
    async def __call__(self, event):
        await asyncio.sleep(0)
        return Continue([event.value])


CALLABLES = {
    "function": plain,
    "function with value": with_value,
    "async": coroutine,
    "async with value": coroutine_with_value,
    "gives a coroutine": gives_a_coroutine,
    "any arguments": takes_any,
    "optional value": has_an_optional_value,
    "keywords": has_keywords,
    "lambda": lambda event: Continue([event.value]),
    "partial": functools.partial(three, "extra"),
    "async partial": functools.partial(async_three, "extra"),
    "partial of a partial": functools.partial(functools.partial(three), "extra"),
    "partial with keyword": functools.partial(has_keywords, keyword=2),
    "callable object": Callable(),
    "async callable object": AsyncCallable(),
    "partial of an async callable object": functools.partial(AsyncCallable()),
    "bound method": Callable().method,
    "async bound method": Callable().async_method,
    "class method": Callable.class_method,
    "static method": Callable.static_method,
}

every = pytest.mark.parametrize("fn", CALLABLES.values(), ids=CALLABLES.keys())


@every
@pytest.mark.parametrize("config", [{}, {"some": "config"}])
async def test_it_is_called_with_event_and_value(fn, config):
    registry = HookRegistry()
    registry.register(fn, POINT, name="h", config=config)
    assert (await registry.fire(POINT, "x")).value == ["x"]


@every
async def test_it_has_a_name_without_being_given_one(fn):
    spec = HookRegistry().register(fn, POINT)
    assert spec.name
    assert spec.target_name == spec.name


@pytest.mark.parametrize("fn", [plain, with_value, Callable(), functools.partial(three, "extra")])
async def test_a_sync_hook_runs_inline_unless_it_is_moved_into_a_thread(fn):
    threads = []

    class Noting:
        def __call__(self, event, value):
            threads.append(threading.get_ident())
            return fn(event, value) if fn is not plain else fn(event)

    registry = HookRegistry()
    registry.register(Noting(), POINT, name="inline")
    registry.register(Noting(), POINT, name="moved", thread=True)
    assert (await registry.fire(POINT, "x")).value == [["x"]]
    assert threads[0] == threading.get_ident()
    assert threads[1] != threading.get_ident()


async def test_a_timeout_abandons_a_thread():
    go_on, done = threading.Event(), threading.Event()

    def stuck(event):
        go_on.wait(10)
        done.set()
        return Block("late")

    registry = HookRegistry()
    registry.register(stuck, POINT, name="h", thread=True, timeout=0.02)
    verdict = await registry.fire(POINT, "x")
    assert (verdict.decision, verdict.records[1].failure) == ("continue", "timeout")
    assert not done.is_set()
    go_on.set()
    assert await asyncio.to_thread(done.wait, 10)


async def async_hook(event):
    return None


@pytest.mark.parametrize(
    "fn",
    [async_hook, functools.partial(async_hook), AsyncCallable(), Callable().async_method],
    ids=["function", "partial", "object", "method"],
)
def test_async_code_cannot_be_moved_into_a_thread(fn):
    with pytest.raises(HookRefusedError, match=r"'h'.*thread"):
        HookRegistry().register(fn, POINT, name="h", thread=True)


def generator(event):
    yield Block("never")


async def async_generator(event):
    yield Block("never")


class Class:
    def __call__(self, event):
        return None


@pytest.mark.parametrize(
    ("fn", "problem"),
    [
        (generator, "generator"),
        (async_generator, "generator"),
        (functools.partial(generator), "generator"),
        (Class, "class"),
        (5, "int"),
        (None, "NoneType"),
        (lambda: None, "event"),
        (lambda a, b, c: None, "event"),
        (lambda *, event: None, "event"),
    ],
)
def test_what_cannot_be_a_hook_is_refused_by_name(fn, problem):
    registry = HookRegistry()
    with pytest.raises(HookRefusedError, match=rf"'culprit'.*{problem}"):
        registry.register(fn, POINT, name="culprit")
    assert registry.list() == []


async def test_a_callable_without_a_signature_gets_the_event():
    class Opaque:
        __signature__ = "none of your business"

        def __call__(self, event):
            return Continue([event.value])

    registry = HookRegistry()
    registry.register(Opaque(), POINT, name="h")
    assert (await registry.fire(POINT, "x")).value == ["x"]


@pytest.mark.parametrize(
    ("point", "fn", "options", "keys"),
    [
        (POINT, generator, {}, ("fn",)),
        (POINT, lambda a, b, c: None, {}, ("fn",)),
        (POINT, async_hook, {"thread": True}, ("thread",)),
        (POINT, plain, {"lane": "middle"}, ("lane",)),
        (POINT, plain, {"mode": "async"}, ("mode",)),
        (POINT, plain, {"timeout": 0}, ("timeout",)),
        (POINT, plain, {"on_error": "retry"}, ("on_error",)),
        (POINT, plain, {"priority": "high"}, ("priority",)),
        (POINT, plain, {"tools": []}, ("tools",)),
        ("before_run", plain, {"tools": ["a"]}, ("tools",)),
        (POINT, plain, {"background": True, "lane": "gate"}, ("background",)),
        ("after_run", plain, {"lane": "gate"}, ("lane",)),
        ("after_run", plain, {"decisions": frozenset({Decision.BLOCK})}, ("block", "lane")),
    ],
)
def test_a_refusal_names_the_options_that_it_is_about(point, fn, options, keys):
    with pytest.raises(HookRefusedError) as refused:
        HookRegistry().register(fn, point, name="h", **options)
    assert refused.value.keys == keys
