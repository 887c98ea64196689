"""Callers by a name in a header; each sees what its name is on."""

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(headers):
    name = headers.get("x-name")
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Say who you are")
    return {"identity": name, "is_authenticated": True}


@auth.on
async def own(ctx, value):
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}
