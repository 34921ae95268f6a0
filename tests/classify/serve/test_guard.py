"""Hostile clients: another host, other sites, no token, odd content. Clear answers, no harm."""

import tempfile
from pathlib import Path
from socket import gethostname

import pytest

from tests.helpers.web import client, files, png, teach

OWN = ("localhost", "127.0.0.1:9", "[::1]:8300", "LOCALHOST:8300")
OTHERS = ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "192.168.1.5")
MALFORMED = ("", "a@localhost", "[::1", "x:y:z")


@pytest.mark.parametrize("host", [*OWN, *OTHERS, *MALFORMED])
def test_only_own_names_are_answered(host: str) -> None:
    with client() as opened:
        assert opened.get("/", headers={"host": host}).status_code == (200 if host in OWN else 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},  # a form that is sent
    ],
)
def test_other_sites_change_nothing(headers: dict[str, str]) -> None:
    with client() as opened:
        teach(opened, 1)
        assert opened.post("/api/undo", headers=headers).status_code == 403
        given = {"data": {"label": "x"}, "files": files("grass", 1)}
        assert opened.post("/api/photos", headers=headers, **given).status_code == 403
        assert len(opened.get("/api/state").json()["classes"]) == 3


def test_a_page_of_its_own_may_and_a_link_elsewhere_too() -> None:
    with client() as opened:
        own = {"origin": "http://localhost:8300", "sec-fetch-site": "same-origin"}
        assert opened.post("/api/classes", json={"name": "a"}, headers=own).status_code == 204
        followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert opened.get("/", headers=followed).status_code == 200
        shown = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        assert opened.get("/api/photos/0/thumbnail", headers=shown).status_code == 403


def test_the_browser_is_told_to_be_strict() -> None:
    with client() as opened:
        for address in ("/", "/api/state", "/nothing", "/static/page.js"):
            headers = opened.get(address).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in headers


def test_the_token_is_needed_and_taken_in_three_ways() -> None:
    with client(host="0.0.0.0", token="s3cret") as opened:
        for address in ("/", "/api/state", "/openapi.json", "/static/page.js"):
            assert opened.get(address).status_code == 401
        for wrong in ("Bearer wrong", "Bearer ", "Basic s3cret", "s3cret"):
            assert opened.get("/api/state", headers={"authorization": wrong}).status_code == 401
        assert opened.get("/?token=wrong").status_code == 401
        assert opened.get("/", headers={"cookie": "fewset_token_8300=wrong"}).status_code == 401
        assert opened.get("/api/state", headers={"authorization": "Bearer s3cret"}).status_code == 200
        answer = opened.get("/?token=s3cret", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert opened.get("/api/state").status_code == 200  # by the cookie


def test_servers_on_two_ports_have_two_cookies() -> None:
    """Cookies know no ports: one name for both would let each server overwrite the other's token."""
    names = set()
    for port in (8300, 8301):
        with client(host="0.0.0.0", token="s3cret") as opened:
            answer = opened.get(f"http://localhost:{port}/?token=s3cret", follow_redirects=False)
            names.add(answer.headers["set-cookie"].partition("=")[0])
    assert len(names) == 2


def test_numbers_are_hosts_where_others_may_come() -> None:
    with client(host="0.0.0.0", token="s3cret") as opened:
        key = {"authorization": "Bearer s3cret"}
        assert opened.get("/api/state", headers={**key, "host": "192.168.1.5:8300"}).status_code == 200
        assert opened.get("/api/state", headers={**key, "host": f"{gethostname()}:8300"}).status_code == 200
        assert opened.get("/api/state", headers={**key, "host": "evil.example"}).status_code == 421
    with client(host="photos.lan", token="s3cret") as opened:
        assert opened.get("/api/state", headers={**key, "host": "photos.lan"}).status_code == 200


def test_an_upload_that_finds_no_room_on_the_disk_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with client() as opened:
        given = {"data": {"label": "grass"}, "files": [("photos", ("a.png", bytes(2_000_000)))]}
        answer = opened.post("/api/photos", **given)
        assert answer.status_code == 507
        assert str(tmp_path / "gone") in answer.json()["detail"]


SCRIPT = "<script>document.title='owned'</script>"


def test_names_go_nowhere_but_into_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with client() as opened:
        teach(opened, 1)
        for label in (SCRIPT, "../../../tmp/owned", "/etc/passwd", "a\\..\\b", "%2e%2e%2f"):
            given = [("photos", (f"{label}.png", files("grass", 5)[0][1][1]))]
            answer = opened.post("/api/photos", data={"label": label}, files=given)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
        names = [each["name"] for each in opened.get("/api/state").json()["classes"]]
        assert SCRIPT in names
        assert opened.get("/api/downloads/classifier").status_code == 200
        for name in ("../../etc/passwd", "..%2f..%2fetc", SCRIPT, "classifier/../x"):
            assert opened.get(f"/api/downloads/{name}").status_code == 404
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_form_and_no_json_is_refused() -> None:
    with client() as opened:
        broken = {"content-type": "multipart/form-data; boundary=x"}
        assert opened.post("/api/photos", headers=broken, content=b"--x\r\nnothing").status_code in (400, 422)
        assert opened.post("/api/photos", content=png("grass", 0)).status_code == 422
        nothing = [("photos", ("", b""))]
        assert opened.post("/api/photos", data={"label": "a"}, files=nothing).status_code in (400, 422)
        assert opened.post("/api/classes", content=b"{" * 5000).status_code == 422
        assert opened.post("/api/photos/move", json={"photos": [-1], "label": "a"}).status_code == 422
        assert opened.post("/api/photos/move", json={"photos": [2**60], "label": "a"}).status_code == 422
        assert opened.post("/api/reject", content=b'{"share": NaN}').status_code == 422
        many = [("photos", (f"{number}.png", b"x")) for number in range(1001)]
        assert opened.post("/api/classify", files=many).status_code in (400, 422)


@pytest.mark.parametrize("host", ["127.0.0.1:8300", "photos.example"])  # nginx's default, and Host $host
def test_a_page_behind_a_proxy_may_use_the_server_under_an_allowed_name(host: str) -> None:
    proxied = {"host": host, "origin": "https://photos.example", "sec-fetch-site": "same-origin"}
    with client(allowed_hosts=["Photos.example"]) as opened:
        assert opened.post("/api/classes", json={"name": "a"}, headers=proxied).status_code == 204
        for origin in ("https://evil.example", "http://photos.example:8080", "https://photos.example:8443"):
            elsewhere = {**proxied, "origin": origin}
            assert opened.post("/api/classes", json={"name": "b"}, headers=elsewhere).status_code == 403
    with client() as opened:
        assert opened.post("/api/classes", json={"name": "a"}, headers=proxied).status_code in (403, 421)


@pytest.mark.parametrize("other", ['prefs={"a":1}', "a[b]=1", "x"])
def test_cookies_of_other_programs_do_not_hide_the_token(other: str) -> None:
    with client(host="0.0.0.0", token="s3cret") as opened:
        given = opened.get("/?token=s3cret", follow_redirects=False).headers["set-cookie"].partition(";")[0]
        opened.cookies.clear()
        answer = opened.get("/api/state", headers={"cookie": f"{other}; {given}"})
        assert answer.status_code == 200
