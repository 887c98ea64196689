import pytest
from fastapi import HTTPException
from langgraph_sdk import Auth

from checkrail.engine.values import User
from checkrail.server.auth import Access, AuthError, Caller, Forbidden, choose_authenticator

ANN = Caller(User("ann", permissions=["threads:read"], extras={"team": "red"}))
ADMIN = Caller(User("root"), "admin")


@pytest.fixture
def auth():
    auth = Auth()

    @auth.authenticate
    async def authenticate():
        return "ann"

    return auth


@pytest.fixture
def authorize(auth):
    async def ask(resource="threads", action="read", value=None, caller=ANN):
        given = {} if value is None else value
        return await choose_authenticator(auth).authorize(caller, resource, action, given)

    return ask


def saying(what):
    async def handler(ctx, value):
        return {"by": what}

    return handler


@pytest.mark.parametrize(
    ("resource", "action", "by"),
    [
        ("threads", "create", "threads.create"),
        ("threads", "create_run", "threads.create_run"),
        ("threads", "read", "threads"),
        ("threads", "search", "threads"),
        ("assistants", "search", "*.search"),
        ("assistants", "read", "everything"),
        ("assistants", "delete", "assistants.delete"),
        ("crons", "update", "crons.update"),
        ("crons", "search", "*.search"),
        ("store", "put", "store.put"),
        ("store", "list_namespaces", "store"),
    ],
)
async def test_the_most_specific_handler_is_asked(auth, authorize, resource, action, by):
    auth.on(saying("everything"))
    auth.on(actions="search")(saying("*.search"))
    auth.on.threads(saying("threads"))
    auth.on.threads.create(saying("threads.create"))
    auth.on.threads.create_run(saying("threads.create_run"))
    auth.on.assistants.delete(saying("assistants.delete"))
    auth.on.crons.update(saying("crons.update"))
    auth.on.store(saying("store"))
    auth.on.store.put(saying("store.put"))
    assert await authorize(resource, action) == {"by": {"$eq": by}}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("agents", "assistants"),
        ("runs", "threads"),
        ("sessions", "threads"),
        ("events", "threads"),
        ("approvals", "threads"),
        ("messages", "threads"),
    ],
)
async def test_our_resources_are_asked_for_in_the_terms_of_the_object(
    auth, authorize, ours, theirs
):
    seen = []

    @auth.on
    async def handler(ctx, value):
        seen.append((ctx.resource, ctx.action))

    await authorize(ours, "read")
    assert seen == [(theirs, "read")]


@pytest.mark.parametrize("resource", ["runners", "keys", "hooks"])
async def test_runners_keys_and_hooks_are_for_admins(authorize, resource):
    with pytest.raises(Forbidden, match="are for admins, and you are member"):
        await authorize(resource, "read")
    assert await authorize(resource, "read", caller=ADMIN) is None


async def test_a_handler_sees_who_asks_for_what(auth, authorize):
    seen = []

    @auth.on
    async def handler(ctx, value):
        seen.append(ctx)
        assert isinstance(ctx.user, Auth.types.BaseUser)

    await authorize("threads", "search")
    [ctx] = seen
    assert (ctx.user.identity, ctx.user.team, ctx.permissions) == ("ann", "red", ["threads:read"])
    assert (ctx.resource, ctx.action) == ("threads", "search")


@pytest.mark.parametrize("answer", [None, True, {}])
async def test_a_handler_accepts_with_none_true_or_an_empty_filter(auth, authorize, answer):
    @auth.on
    async def handler(ctx, value):
        return answer

    assert await authorize() is None


async def test_a_handler_refuses_with_false(auth, authorize):
    @auth.on
    async def handler(ctx, value):
        return False

    with pytest.raises(Forbidden) as refused:
        await authorize("threads", "create_run")
    assert refused.value.status == 403
    assert refused.value.body == {
        "error": "forbidden",
        "message": "You may not create run here",
        "detail": "You may not create run here",
        "info": {"on": "threads"},
    }


@pytest.mark.parametrize("kind", [Auth.exceptions.HTTPException, HTTPException])
async def test_a_handler_refuses_with_a_status_of_its_own(auth, authorize, kind):
    @auth.on
    async def handler(ctx, value):
        raise kind(status_code=402, detail="Pay first", headers={"X-Price": "5"})

    with pytest.raises(AuthError, match="Pay first") as refused:
        await authorize()
    assert (refused.value.status, refused.value.headers) == (402, {"X-Price": "5"})


async def test_a_failed_assertion_refuses(auth, authorize):
    @auth.on.store
    async def handler(ctx, value):
        raise AssertionError

    with pytest.raises(Forbidden, match="Forbidden"):
        await authorize("store", "get")


async def test_a_handler_that_fails_lets_nobody_through(auth, authorize):
    @auth.on
    async def handler(ctx, value):
        return value["missing"]

    with pytest.raises(AuthError, match="'handler' failed") as failed:
        await authorize()
    assert failed.value.status == 500


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("yes", "returned str instead of None, a bool or a filter"),
        (1, "returned int"),
        ({"owner": {"$like": "a"}}, "'\\$like' at 'owner' is no operator"),
        ({"owner": ["a"]}, "'owner' is compared with text"),
    ],
)
async def test_an_answer_that_nobody_understands_lets_nobody_through(
    auth, authorize, answer, problem
):
    @auth.on
    async def handler(ctx, value):
        return answer

    with pytest.raises(AuthError, match=problem) as failed:
        await authorize()
    assert failed.value.status == 500


@pytest.mark.parametrize("value", [{}, {"metadata": None}, {"metadata": {}}])
async def test_what_a_handler_writes_into_the_value_is_there_afterwards(auth, authorize, value):
    @auth.on.threads.create
    async def handler(ctx, value):
        value.setdefault("metadata", {})["owner"] = ctx.user.identity

    await authorize("threads", "create", value)
    assert value == {"metadata": {"owner": "ann"}}


async def test_a_handler_scopes_the_namespace_of_the_store(auth, authorize):
    @auth.on.store
    async def handler(ctx, value):
        value["namespace"] = (ctx.user.identity, *value["namespace"])

    value = {"namespace": ("notes",), "key": "k"}
    await authorize("store", "put", value)
    assert value["namespace"] == ("ann", "notes")


async def test_where_no_handler_speaks_users_touch_their_own_rows(auth):
    async def accept(ctx, value):
        return None

    async def filtered(ctx, value):
        return {"team": "red"}

    auth.on.threads.create(accept)
    auth.on.threads.search(filtered)
    authenticator = choose_authenticator(auth)

    async def access(action, caller=ANN):
        return await authenticator.access(caller, "runs", action, {})

    assert await access("create") == Access(owner=None, filter=None)
    assert await access("search") == Access(owner=None, filter={"team": {"$eq": "red"}})
    assert await access("read") == Access(owner="ann", filter=None)
    assert await access("read", ADMIN) == Access(owner=None, filter=None)


async def test_admins_are_filtered_by_handlers_like_everybody(auth, authorize):
    auth.on(saying("handler"))
    assert await authorize(caller=ADMIN) == {"by": {"$eq": "handler"}}


async def test_beside_keys_for_runners_the_object_decides_all_the_same(auth, keys):
    auth.on.threads(saying("threads"))
    authenticator = choose_authenticator(auth, keys)
    assert await authenticator.access(ANN, "threads", "read", {}) == Access(
        owner=None, filter={"by": {"$eq": "threads"}}
    )
    assert authenticator.visible_owner(ANN, "crons", "read") == "ann"


async def test_with_keys_alone_nobody_is_asked(keys):
    value = {"metadata": None}
    access = await choose_authenticator(keys=keys).access(ANN, "threads", "create", value)
    assert access == Access(owner="ann", filter=None)
    assert value == {"metadata": None}


@pytest.mark.parametrize("ruling", [True, None, {"team": "red"}])
async def test_owners_are_kept_apart_whatever_handlers_let_through(auth, ruling):
    @auth.on
    async def everything(ctx, value):
        return ruling

    wanted = {"team": {"$eq": "red"}} if isinstance(ruling, dict) else None
    for isolate, owner in ((False, None), (True, "ann")):
        authenticator = choose_authenticator(auth, isolate=isolate)
        access = await authenticator.access(ANN, "threads", "read", {})
        assert access == Access(owner=owner, filter=wanted)
        assert (await authenticator.access(ADMIN, "threads", "read", {})).owner is None


async def test_a_filter_may_say_that_it_is_of_metadata(auth, authorize):
    @auth.on.threads
    async def own(ctx, value):
        return {"metadata": {"owner": ctx.user.identity}}

    assert await authorize() == {"owner": {"$eq": "ann"}}
