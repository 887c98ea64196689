from contextlib import nullcontext

import pytest
from starlette.testclient import WebSocketDenialResponse

from checkrail.server.auth import AuthConfigError, Cors, check_binding, choose_authenticator

EVENTS = "/threads/t/stream/events"
OURS = ["127.0.0.1", "127.0.0.1:2024", "localhost", "LOCALHOST:80", "localhost.", "[::1]:2024"]
FOREIGN = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "0.0.0.0",
    "192.168.1.2:2024",
    "2130706433",
    "evil.example@localhost",
    "localhost/evil.example",
    "[::2]",
    "",
]


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_machine_are_answered(serve, host):
    assert serve(choose_authenticator()).get("/threads/t", headers={"host": host}).is_success


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/threads/t", "/ok", "/mine", "/nothing"])
def test_other_names_are_refused_on_every_path(serve, host, path):
    answer = serve(choose_authenticator(), custom="open").get(path, headers={"host": host})
    assert answer.status_code == 403
    assert answer.json()["error"] == "foreign_host"
    assert "configure auth" in answer.json()["message"]


def test_a_second_host_header_does_not_help(serve):
    headers = [("host", "localhost"), ("host", "evil.example")]
    assert serve(choose_authenticator()).get("/ok", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:2024"]
)
def test_pages_of_this_machine_may_call(serve, origin):
    assert serve(choose_authenticator()).get("/threads/t", headers={"origin": origin}).is_success


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "file://localhost",
        "http://[",
    ],
)
@pytest.mark.parametrize("path", ["/threads/t", "/ok", "/mine"])
def test_pages_of_other_sites_are_refused_on_every_path(serve, origin, path):
    answer = serve(choose_authenticator(), custom="open").get(path, headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"] == "foreign_origin"
    assert "http.cors.allow_origins" in answer.json()["message"]


def test_a_site_that_was_named_may_call(serve):
    cors = Cors(allow_origins=("https://app.example",), allow_origin_regex=r"https://.*\.ours")
    client = serve(choose_authenticator(cors=cors))
    for origin in ("https://app.example", "https://team.ours"):
        assert client.get("/threads/t", headers={"origin": origin}).is_success
    other = {"origin": "https://team.ours.evil.example"}
    assert client.get("/threads/t", headers=other).status_code == 403


def test_a_star_names_nobody_where_nobody_is_authenticated(serve):
    client = serve(choose_authenticator(cors=Cors(allow_origins=("*",))))
    answer = client.get("/threads/t", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}]
)
def test_sockets_of_other_sites_are_refused_before_they_are_accepted(serve, headers):
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        serve(choose_authenticator()).websocket_connect(f"ws://127.0.0.1{EVENTS}", headers=headers),
    ):
        pass
    assert refused.value.status_code == 403


def test_sockets_of_this_machine_are_accepted(serve):
    headers = {"origin": "http://localhost:3000"}
    with serve(choose_authenticator()).websocket_connect(
        f"ws://127.0.0.1{EVENTS}", headers=headers
    ) as socket:
        assert socket.receive_json() == {"owner": "anonymous"}


def test_with_auth_any_host_and_any_page_may_ask(serve, keys):
    client = serve(choose_authenticator(keys=keys), base_url="https://api.example")
    headers = {"x-api-key": keys.add(), "origin": "https://app.example"}
    assert client.get("/threads/t", headers=headers).is_success


@pytest.mark.parametrize(
    ("origin", "cors", "accepted"),
    [
        (None, None, True),
        ("https://api.example", None, True),
        ("https://API.example", None, True),
        ("https://evil.example", None, False),
        ("https://api.example:8443", None, False),
        ("https://app.example", Cors(allow_origins=("https://app.example",)), True),
        ("https://any.example", Cors(allow_origins=("*",)), True),
        ("https://evil.example", Cors(allow_origins=("https://app.example",)), False),
    ],
)
def test_with_auth_sockets_come_from_the_same_or_an_allowed_origin(
    serve, keys, origin, cors, accepted
):
    client = serve(choose_authenticator(keys=keys, cors=cors))
    headers = {"x-api-key": keys.add("bob"), **({"origin": origin} if origin else {})}
    expected = nullcontext() if accepted else pytest.raises(WebSocketDenialResponse)
    with (
        expected as refused,
        client.websocket_connect(f"wss://api.example{EVENTS}", headers=headers) as socket,
    ):
        assert socket.receive_json() == {"owner": "bob"}
    assert accepted or refused.value.status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_without_auth_loopback_may_be_bound(host):
    check_binding(host, has_auth=choose_authenticator().has_auth)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.2", "server.example"])
def test_without_auth_nothing_else_may_be_bound(host, keys):
    with pytest.raises(AuthConfigError, match=r"no auth is configured\. Configure API keys"):
        check_binding(host, has_auth=choose_authenticator().has_auth)
    check_binding(host, has_auth=choose_authenticator(keys=keys).has_auth)
