"""The endpoints: who gets in, what is refused and how, and that nothing changes then."""

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.bookkeeping.deduplication import KEPT
from fedbandit.service.http.openapi import DESCRIPTION
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from fedbandit.web.openapi import page
from tests.service.made_uploads import GRAM, RECIPE, TRIANGLE, merged, same, sync_for, upload_for
from tests.service.running import (
    BODY,
    client_of,
    make_model,
    make_token,
    post,
    state_path,
    stored,
    sync_path,
)

if TYPE_CHECKING:
    pass

TOKENS = Settings(remember_seconds=0.0)
LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=100)


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE, limits=LIMITS)
    make_model(made, "shop", GRAM, limits=LIMITS)
    return made


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    with client_of(url) as made:
        yield made


@pytest.mark.parametrize(("model", "recipe"), [("news", RECIPE), ("shop", GRAM)])
def test_uploads_are_merged_in_order_and_answered_with_everything(
    client: TestClient, url: str, model: str, recipe: fb.Recipe
) -> None:
    uploads: list[fb.Upload] = []
    for sequence in (1, 2, 3):
        sync = sync_for(recipe, sequence, sequence=sequence)
        uploads.append(sync.upload)
        answer = post(client, sync, model=model)
        assert (answer.merged, answer.sequence, answer.version) == (True, sequence, sequence)
        assert answer.fingerprint == wire.fingerprint(recipe)
        assert same(answer.download, merged(recipe, uploads))
    assert same(stored(url, model), merged(recipe, uploads))


def test_a_copy_changes_nothing_and_is_answered(client: TestClient, url: str) -> None:
    first, second = sync_for(RECIPE, 1), sync_for(RECIPE, 2, sequence=2)
    post(client, first)
    post(client, second)
    for sync, version in ((second, 2), (first, 0)):
        answer = post(client, sync)
        assert (answer.merged, answer.sequence) == (False, sync.sequence)
        assert answer.version == version
        assert same(answer.download, merged(RECIPE, [first.upload, second.upload]))
    assert stored(url).version == 2


def test_lives_and_agents_and_models_are_counted_apart(client: TestClient, url: str) -> None:
    uploads: list[fb.Upload] = []
    for agent, life in (("a", 1), ("a", 2), ("b", 1)):
        sync = sync_for(RECIPE, len(uploads), life=life)
        assert post(client, sync, agent=agent).merged
        uploads.append(sync.upload)
    assert post(client, sync_for(GRAM, 0, life=1), model="shop", agent="a").version == 1
    assert same(stored(url), merged(RECIPE, uploads))


def test_a_forgotten_life_is_refused_and_a_new_one_is_not(client: TestClient, url: str) -> None:
    for life in range(KEPT + 1):
        known = wire.decode_joined(client.get(state_path()).content).lives
        assert known == life
        post(client, sync_for(RECIPE, life, life=life, born=known))
    late = wire.encode_sync(sync_for(RECIPE, 0, life=0, born=0))
    answer = client.post(sync_path(), content=late, headers=BODY)
    assert answer.status_code == 410
    assert answer.json()["error"]["field"] == "life"
    assert stored(url).version == KEPT + 1
    assert post(client, sync_for(RECIPE, 9, life=99, born=KEPT + 1)).merged


def test_joining_tells_the_recipe_the_limits_and_the_state(client: TestClient) -> None:
    post(client, sync_for(RECIPE, 1))
    joined = wire.decode_joined(client.get(state_path()).content)
    assert fb.RECIPES[joined.recipe](**json.loads(joined.params)) == RECIPE
    assert (joined.fingerprint, joined.limits) == (wire.fingerprint(RECIPE), LIMITS)
    assert joined.lives == 1
    assert joined.download is not None
    assert same(joined.download, merged(RECIPE, [upload_for(RECIPE, 1)]))


@pytest.mark.parametrize("have", ["", "1", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "\u0661" * 64])
def test_a_digest_is_64_digits(client: TestClient, have: str) -> None:
    answer = client.get(state_path(), params={"have": have, "format": "2"})
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == "have"


# What is checked at the door -----------------------------------------------------------------


def _upload(**changes: object) -> fb.Upload:
    good = upload_for(RECIPE, 1)
    fields = {"summary": good.summary, "moment": good.moment, "count": good.count, **changes}
    agent = fields.pop("agent", 0)
    return fb.Upload(agent, fb.Statistics(**fields))  # type: ignore[arg-type]


def _sketch(rows: object = None, *, shed: float = 0.0, size: int = 3, width: int = 4) -> fb.Sketch:
    return fb.Sketch(np.eye(2, width) if rows is None else np.array(rows), shed, size)


SKEWED = _sketch([[1.0, 0, 0, 0], [1.0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("field", "upload"),
    [
        ("upload.agent", _upload(agent=1)),
        ("upload.count", _upload(count=0)),
        ("upload.count", _upload(count=-1)),
        ("upload.count", _upload(count=101)),
        ("upload.moment", _upload(moment=np.zeros(5))),
        ("upload.moment", _upload(moment=np.array([0.0, np.nan, 0, 0]))),
        ("upload.moment", _upload(moment=np.array([0.0, -np.inf, 0, 0]))),
        ("upload.moment", _upload(moment=np.array([6.1, 0, 0, 0]))),
        ("upload.summary.rows", _upload(summary=_sketch(width=5))),
        ("upload.summary.rows", _upload(summary=_sketch([[1.0, np.nan, 0, 0]]))),
        ("upload.summary.rows", _upload(summary=_sketch([[1.0, np.inf, 0, 0]]))),
        ("upload.summary.rows", _upload(summary=SKEWED, moment=np.zeros(4))),
        ("upload.summary.rows", _upload(summary=_sketch([[1e-158, 0, 0, 0]]), moment=np.zeros(4))),
        ("upload.moment", _upload(summary=_sketch(np.zeros((0, 4))), moment=np.ones(4))),
        ("upload.moment", _upload(summary=_sketch(), moment=np.array([0.0, 0, 1, 0]))),
        ("upload.moment", _upload(summary=_sketch(), moment=np.array([2.5, 0, 0, 0]))),
        ("upload.moment", _upload(summary=_sketch(shed=0.1), moment=np.array([0.0, 0, 0.8, 0]))),
        ("upload.summary.rows", _upload(summary=_sketch(np.eye(3, 4)))),
        ("upload.summary.size", _upload(summary=_sketch(size=4))),
        ("upload.summary.shed", _upload(summary=_sketch(shed=-1e-300))),
        ("upload.summary.shed", _upload(summary=_sketch(shed=np.nan))),
        ("upload.summary.shed", _upload(summary=_sketch(shed=np.inf))),
        ("upload.summary", _upload(summary=_sketch([[2.5, 0, 0, 0]]))),
        ("upload.summary", _upload(summary=_sketch(shed=4.1))),
        ("upload.summary", _upload(summary=fb.Gram(np.eye(4)))),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    client: TestClient, url: str, field: str, upload: fb.Upload
) -> None:
    post(client, sync_for(RECIPE, 1))
    sync = wire.Sync(wire.fingerprint(RECIPE), bytes(16), 2, upload)
    answer = client.post(sync_path(), content=wire.encode_sync(sync), headers=BODY)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert same(stored(url), merged(RECIPE, [upload_for(RECIPE, 1)]))


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]],  # indefinite, by its third minor
        [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]],  # more than 6 arms can give
        [[np.nan, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[1.0, 1.0 + 1e-9, 0.0], [1.0 + 1e-9, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ],
)
def test_a_gram_matrix_is_a_sum_of_arms(client: TestClient, matrix: list[list[float]]) -> None:
    upload = fb.Upload(0, fb.Statistics(fb.Gram(np.array(matrix)), np.zeros(3), 6))
    sync = wire.Sync(wire.fingerprint(GRAM), bytes(16), 1, upload)
    answer = client.post(sync_path("shop"), content=wire.encode_sync(sync), headers=BODY)
    assert answer.status_code == 422
    assert answer.json()["error"]["field"].startswith("upload.summary")


def test_the_limits_are_met_exactly(client: TestClient) -> None:
    rows = np.zeros((1, 4))
    rows[0, 0] = np.sqrt(6.0)
    upload = _upload(summary=_sketch(rows), moment=np.array([6.0, 0, 0, 0]))
    assert post(client, wire.Sync(wire.fingerprint(RECIPE), bytes(16), 1, upload)).merged


def test_a_moment_may_use_all_the_evidence_there_is(client: TestClient) -> None:
    summary = _sketch(shed=0.25)
    for sequence, (place, length) in enumerate(((0, 1.25), (3, 0.25)), 1):
        moment = np.zeros(4)
        moment[place] = np.sqrt(6 * length)
        upload = _upload(summary=summary, moment=moment)
        assert post(client, wire.Sync(wire.fingerprint(RECIPE), bytes(16), sequence, upload)).merged


def test_another_recipe_is_a_conflict(client: TestClient) -> None:
    answer = client.post(sync_path(), content=wire.encode_sync(sync_for(GRAM, 1)), headers=BODY)
    assert (answer.status_code, answer.json()["error"]["field"]) == (409, "fingerprint")


def test_a_life_cannot_be_born_later_than_now(client: TestClient) -> None:
    body = wire.encode_sync(sync_for(RECIPE, 1, born=1))
    answer = client.post(sync_path(), content=body, headers=BODY)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "born")


def test_another_content_type_is_refused(client: TestClient) -> None:
    body = wire.encode_sync(sync_for(RECIPE, 1))
    for given in ({}, {"Content-Type": "application/json"}):
        answer = client.post(sync_path(), content=body, headers=given)
        assert (answer.status_code, answer.json()["error"]["field"]) == (415, "content-type")
    given = {"Content-Type": f"{wire.MEDIA_TYPE}; v=1"}
    assert client.post(sync_path(), content=body, headers=given).status_code == 200


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_larger_than_any_sync_is_refused(client: TestClient, declared: bool) -> None:
    most = 8 * 4 * 3 + 512
    for size, status in ((most, 422), (most + 1, 413)):
        content = bytes(size) if declared else iter([bytes(size - 1), b"\0"])
        answer = client.post(sync_path(), content=content, headers=BODY)
        assert (answer.status_code, answer.json()["error"]["field"][:4]) == (
            status,
            "body" if status == 413 else "sync",
        )


@pytest.mark.parametrize(
    "recipe", [RECIPE, GRAM, TRIANGLE, fb.FSCLB(dimension=9, sketch_size=10, agents=1)]
)
def test_the_largest_honest_sync_fits(recipe: fb.Recipe) -> None:
    served = Served(new_model("m", recipe)[0], recipe)
    upload = upload_for(recipe, 1, count=10 * recipe.dimension)
    sync = wire.Sync("0" * 16, bytes(16), wire.LARGEST, upload, wire.LARGEST)
    assert len(wire.encode_sync(sync)) <= served.largest_body


def test_unknown_paths_and_methods_are_json_errors(client: TestClient) -> None:
    for method, path, status in (
        ("GET", "/v2", 404),
        ("GET", sync_path(), 405),
        ("DELETE", state_path(), 405),
        ("GET", "/v1/models/news/agents/a/b/state", 404),
        ("POST", f"{sync_path()}/", 404),  # not sent on to where a request says that it is
        ("GET", "/docs/", 404),
    ):
        answer = client.request(method, path, follow_redirects=False)
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"field", "message"}


@pytest.mark.parametrize("name", ["-a", "a" * 65, "a b", "é", "a%00"])
def test_names_are_plain(client: TestClient, name: str) -> None:
    for path, field in ((state_path(model=name), "model"), (state_path(agent=name), "agent")):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


def test_without_tokens_an_unknown_model_is_not_found(client: TestClient) -> None:
    answer = client.get(state_path(model="gnus"))
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "model")


# Who may talk --------------------------------------------------------------------------------


def test_a_token_opens_one_agent_of_one_model(url: str) -> None:
    doors = [("news", "a"), ("news", "b"), ("shop", "a"), ("gone", "a"), ("news", "A")]
    secrets = {
        door: make_token(url, model=door[0], agent=door[1]) for door in doors if door[0] != "gone"
    }
    admin = make_token(url, model=None, agent=None)
    answers = set()
    others = [(None, admin), (None, "nonsense"), (None, "")]
    with client_of(url, TOKENS) as client:
        for owner, secret in [*secrets.items(), *others]:
            for model, agent in doors:
                sync = sync_for(RECIPE if model == "news" else GRAM, 1)
                for answer in (
                    client.get(state_path(model, agent), headers=_bearer(secret)),
                    client.post(
                        sync_path(model, agent),
                        content=wire.encode_sync(sync),
                        headers=BODY | _bearer(secret),
                    ),
                ):
                    assert answer.status_code == (200 if owner == (model, agent) else 401)
                    if owner != (model, agent):
                        headers = {k: v for k, v in answer.headers.items() if k != "date"}
                        answers.add((answer.content, tuple(sorted(headers.items()))))
        assert len(answers) == 1
        assert client.get("/metrics", headers=_bearer(admin)).status_code == 200
        for secret in ("", "nonsense", *secrets.values()):
            assert client.get("/metrics", headers=_bearer(secret)).status_code == 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer {}x", "Bearer x{}", "Bearer é"]
)
def test_other_ways_to_say_it_are_refused(url: str, header: str) -> None:
    secret = make_token(url, model="news", agent="phone")
    with client_of(url, TOKENS) as client:
        given = {b"Authorization": header.format(secret).encode()}
        assert client.get(state_path(), headers=given).status_code == 401
        assert client.get(state_path(), headers=_bearer(secret)).status_code == 200


def test_a_revoked_token_opens_nothing(url: str) -> None:
    secret = make_token(url, model="news", agent="phone")
    with client_of(url, TOKENS) as client:
        assert client.get(state_path(), headers=_bearer(secret)).status_code == 200
        store = open_store(url)
        store.revoke(store.tokens()[0].name)
        assert client.get(state_path(), headers=_bearer(secret)).status_code == 401
        store.close()


def test_a_token_that_was_good_merges_and_learns_nothing_once_it_is_revoked(url: str) -> None:
    """However long tokens are believed: the transaction asks again."""
    secret = make_token(url, model="news", agent="phone")
    headers = {**BODY, **_bearer(secret)}
    with client_of(url, Settings(remember_seconds=3600.0)) as client:
        for sequence, status in ((1, 200), (2, 401), (1, 401)):
            body = wire.encode_sync(sync_for(RECIPE, sequence, sequence=sequence))
            answer = client.post(sync_path(), content=body, headers=headers)
            assert answer.status_code == status
            if status == 200:
                store = open_store(url)
                store.revoke(store.tokens()[0].name)
                store.close()
    assert stored(url).version == 1


@pytest.mark.parametrize("body", [b"nonsense", b"\xff" * 10_000_000])
def test_a_revoked_token_is_told_nothing_about_its_bodies(url: str, body: bytes) -> None:
    secret = make_token(url, model="news", agent="phone")
    headers = {**BODY, **_bearer(secret)}
    with client_of(url, TOKENS) as client:
        good = wire.encode_sync(sync_for(RECIPE, 1))
        assert client.post(sync_path(), content=good, headers=headers).status_code == 200
        assert client.post(sync_path(), content=body, headers=headers).status_code in (413, 422)
        store = open_store(url)
        store.revoke(store.tokens()[0].name)
        store.close()
        assert client.post(sync_path(), content=body, headers=headers).status_code == 401


def test_only_a_hash_of_a_token_is_stored(url: str) -> None:
    secret = make_token(url, model="news", agent="phone")
    with open(url.removeprefix("sqlite:///"), "rb") as file:
        assert secret.encode() not in file.read()


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_metrics_count_what_happened(client: TestClient) -> None:
    sizes = 0
    for sequence in (1, 1, 2):
        sync = sync_for(RECIPE, sequence, sequence=sequence)
        sizes += len(wire.encode_sync(sync))
        post(client, sync)
    client.get(state_path())
    client.get("/nowhere")
    text = client.get("/metrics").text
    for line in (
        'fedbandit_uploads_total{model="news",outcome="merged"} 2',
        'fedbandit_uploads_total{model="news",outcome="copy"} 1',
        'fedbandit_batches_total{model="news"} 2',
        'fedbandit_states_total{model="news"} 1',
        f'fedbandit_received_bytes_total{{model="news"}} {sizes}',
        'fedbandit_refused_total{status="404"} 1',
        'fedbandit_model_version{model="news"} 2',
        'fedbandit_model_observations{model="news"} 12',
        'fedbandit_model_version{model="shop"} 0',
        "fedbandit_sync_seconds_count 3",
        'fedbandit_sync_seconds_bucket{le="+Inf"} 3',
        "fedbandit_waiting 0",
    ):
        assert line in text.splitlines()
    form = r'(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+)'
    assert all(re.fullmatch(form, line) for line in text.splitlines())


def test_the_docs_show_every_endpoint_and_fetch_nothing(client: TestClient) -> None:
    shown = client.get("/docs")
    text = shown.text
    assert shown.headers["content-security-policy"].startswith("default-src 'none';")
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert client.get("/openapi.json").json() == DESCRIPTION
    assert not re.search(r"(src|href)=['\"]?(https?:)?//|@import|url\(", text)
    for name in re.findall(r"(?:src|href)='(docs/[^']+)'", text):
        assert client.get(f"/{name}").status_code == 200
    operations = [each for one in DESCRIPTION["paths"].values() for each in one.values()]
    for each in operations:
        if "responses" in each:
            assert list(each["responses"]) == sorted(each["responses"])
            assert "curl " in each["description"]


def test_without_swagger_ui_a_page_without_scripts_shows_every_endpoint() -> None:
    text = page(DESCRIPTION)
    for path in DESCRIPTION["paths"]:
        assert path in text
    assert "<script" not in text


def test_log_lines_give_nothing_away(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    secret = make_token(url, model="news", agent="phone")
    with client_of(url, TOKENS) as client:
        body = wire.encode_sync(sync_for(RECIPE, 1))
        for token in (secret, "a-wrong-token"):
            for content in (body, b"nonsense"):
                headers = BODY | _bearer(token)
                client.post(sync_path(), content=content, headers=headers)
    mine = [record for record in caplog.records if record.name.startswith(("fedbandit", "uvicorn"))]
    said = " ".join(record.getMessage() for record in mine)
    assert secret not in said
    assert "a-wrong-token" not in said
