"""Who calls the server, and what they may touch."""

from checkrail.server.auth.answers import auth_error_response
from checkrail.server.auth.authenticator import Access, Authenticator
from checkrail.server.auth.caller import ANONYMOUS, Caller, Role, caller_of
from checkrail.server.auth.choice import choose
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import AuthConfigError, AuthError, Forbidden, Unauthenticated
from checkrail.server.auth.filters import Filter, matches
from checkrail.server.auth.guard import Guard
from checkrail.server.auth.key_watch import EndWithKey, KeyWatch, revoked_error
from checkrail.server.auth.keys import KeyRow, KeyStore, NewKey, new_key
from checkrail.server.auth.origins import check_binding
from checkrail.server.auth.table import TABLE, missing

__all__ = [
    "ANONYMOUS",
    "TABLE",
    "Access",
    "AuthConfigError",
    "AuthError",
    "Authenticator",
    "Caller",
    "Cors",
    "EndWithKey",
    "Filter",
    "Forbidden",
    "Guard",
    "KeyRow",
    "KeyStore",
    "KeyWatch",
    "NewKey",
    "Role",
    "Unauthenticated",
    "auth_error_response",
    "caller_of",
    "check_binding",
    "choose",
    "matches",
    "missing",
    "new_key",
    "revoked_error",
]
