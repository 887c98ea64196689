"""Logins by key: what the cookie is good for, when it ends, and who may send forms."""

import pytest


def test_a_stranger_is_sent_to_the_login_and_back(visit, keyed):
    browser = visit()
    answer = browser.get("/ui/runs?status=blocked")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/ui/login?next=/ui/runs%3Fstatus%3Dblocked"
    answer = browser.log_in(keyed.tokens["viewer"], next="/ui/runs?status=blocked")
    assert answer.headers["location"] == "/ui/runs?status=blocked"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert keyed.tokens["viewer"] not in cookie
    assert browser.get("/ui/runs?status=blocked").status_code == 200


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "/runs", "/ui/login"]
)
def test_the_login_leads_to_our_pages_only(visit, keyed, wanted):
    answer = visit().log_in(keyed.tokens["viewer"], next=wanted)
    assert answer.headers["location"] == "/ui/"


@pytest.mark.parametrize("key", ["", "crk_wrong", "x" * 300, "crk_ä"])
def test_a_wrong_key_is_refused(visit, key):
    answer = visit().log_in(key)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_runner_cannot_log_in(visit, keyed):
    assert visit().log_in(keyed.tokens["runner"]).status_code == 403


def test_the_cookie_is_good_for_pages_alone(visit):
    browser = visit("admin")
    assert browser.get("/ui/runs").status_code == 200
    assert browser.get("/runs").status_code == 401
    assert browser.post("/runs/cancel", json={}).status_code == 401


def test_it_dies_with_the_key(visit, keyed):
    keyed.add_key("leaver", "member", "lea")
    browser = visit("leaver")
    assert browser.get("/ui/runs").status_code == 200
    keyed.served.run("keys", "revoke", keyed.key_ids["leaver"])
    assert browser.get("/ui/runs").headers["location"].startswith("/ui/login")


def test_logging_out_ends_it_on_the_server_too(visit):
    browser = visit("member")
    kept = dict(browser.cookies)
    assert browser.submit("/ui/logout").status_code == 303
    browser.cookies.update(kept)
    assert browser.get("/ui/runs").status_code == 303


def test_forms_need_their_token_and_their_origin(visit, keyed):
    run = keyed.run("member", "refund", {"amount": 1})
    browser = visit("member")
    path, origin = f"/ui/runs/{run['run_id']}/rerun", {"origin": keyed.url}
    told = {"csrf": browser.token(), "parameters": '{"amount": 2}'}
    other = visit("member").token()
    assert browser.post(path, data={"parameters": "{}"}, headers=origin).status_code == 403
    assert browser.post(path, data=told | {"csrf": other}, headers=origin).status_code == 403
    foreign = {"origin": "http://127.0.0.1:1"}
    assert browser.post(path, data=told, headers=foreign).status_code == 403
    assert browser.post(path, data=told, headers={"origin": "null"}).status_code == 403
    cross = {"sec-fetch-site": "cross-site"}
    assert browser.post(path, data=told, headers=cross).status_code == 403
    assert browser.post(path, data=told, headers=origin).status_code == 303


def test_a_login_form_of_another_site_is_refused(visit, keyed):
    told = {"key": keyed.tokens["viewer"]}
    answer = visit().post("/ui/login", data=told, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/ui/runs", "/ui/login", "/ui/nowhere", "/ui/static/app.css"])
def test_every_answer_keeps_a_page_to_itself(visit, path):
    headers = visit("viewer").get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "js/../../auth.py", "app.py", "vendor/"]
)
def test_static_files_are_those_of_the_folder(visit, name):
    assert visit().get(f"/ui/static/{name}").status_code == 404


def test_the_root_leads_to_the_dashboard(visit):
    answer = visit().get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/")
