import pytest

from checkrail.server.auth import AuthConfigError, Cors, choose_authenticator

APP = "https://app.example"
PREFLIGHT = {
    "origin": APP,
    "access-control-request-method": "DELETE",
    "access-control-request-headers": "x-api-key",
}


@pytest.fixture
def client(serve, keys):
    cors = Cors.from_config({"allow_origins": [APP], "allow_credentials": True})
    return serve(choose_authenticator(keys=keys, cors=cors), wrap=cors.wrap)


def test_a_preflight_is_answered_without_credentials(client):
    answer = client.options("/threads/t", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert "DELETE" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "x-api-key"


def test_a_preflight_of_another_site_is_refused(client):
    answer = client.options("/threads/t", headers={**PREFLIGHT, "origin": "https://evil.example"})
    assert answer.status_code == 400
    assert "access-control-allow-origin" not in answer.headers


def test_pages_can_read_answers_and_refusals_and_the_headers_that_clients_need(client, keys):
    refused = client.get("/threads/t", headers={"origin": APP})
    answered = client.get("/threads/t", headers={"origin": APP, "x-api-key": keys.add()})
    assert (refused.status_code, answered.status_code) == (401, 200)
    for answer in (refused, answered):
        assert answer.headers["access-control-allow-origin"] == APP
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        assert {"content-location", "location", "x-pagination-next"} <= {*exposed}


def test_settings_have_the_names_of_the_config_file():
    config = {
        "allow_origins": [APP],
        "allow_methods": ["GET"],
        "allow_headers": ["x-token"],
        "allow_credentials": True,
        "allow_origin_regex": "https://.*",
        "expose_headers": ["x-more"],
        "max_age": 5,
    }
    assert Cors.from_config(config) == Cors(
        (APP,), ("GET",), ("x-token",), True, "https://.*", ("x-more",), 5
    )
    assert Cors.from_config({}) == Cors.from_config({"allow_origins": None}) == Cors()


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"origins": []}, "http.cors has no setting 'origins'. It has allow_origins, "),
        ({"allow_origins": "*"}, "allow_origins is not a list of texts"),
        ({"allow_origins": [1]}, "allow_origins is not a list of texts"),
        ({"allow_credentials": "yes"}, "allow_credentials is not of type bool"),
        ({"max_age": True}, "max_age is not of type int"),
        ({"allow_origin_regex": "("}, "allow_origin_regex is not a regular expression: "),
        ({"allow_origin_regex": 7}, "allow_origin_regex is not a regular expression"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_its_name(config, problem):
    with pytest.raises(AuthConfigError, match=problem.replace("(", r"\(")):
        Cors.from_config(config)


def test_without_origins_nobody_is_allowed():
    assert not Cors().allows(APP)
    assert Cors(allow_origins=("*",)).allows(APP)
    assert not Cors(allow_origins=("*",)).names(APP)
