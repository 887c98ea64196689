"""Who calls the server, and what they may touch."""

from checkrail.server.auth.authenticator import Access, RequestAuthenticator
from checkrail.server.auth.caller import ANONYMOUS, Caller, Role, caller_of
from checkrail.server.auth.cors import Cors
from checkrail.server.auth.errors import (
    AuthConfigError,
    AuthError,
    Forbidden,
    Unauthenticated,
    auth_error_response,
)
from checkrail.server.auth.filters import Filter, matches_filter
from checkrail.server.auth.guard import Guard
from checkrail.server.auth.key_watch import EndWithKey, KeyWatch, revoked_error
from checkrail.server.auth.keys import KeyStore, NewKey, choose_authenticator, generate_key
from checkrail.server.auth.origins import check_binding
from checkrail.server.auth.route_table import TABLE, missing_routes

__all__ = [
    "ANONYMOUS",
    "TABLE",
    "Access",
    "AuthConfigError",
    "AuthError",
    "Caller",
    "Cors",
    "EndWithKey",
    "Filter",
    "Forbidden",
    "Guard",
    "KeyStore",
    "KeyWatch",
    "NewKey",
    "RequestAuthenticator",
    "Role",
    "Unauthenticated",
    "auth_error_response",
    "caller_of",
    "check_binding",
    "choose_authenticator",
    "generate_key",
    "matches_filter",
    "missing_routes",
    "revoked_error",
]
