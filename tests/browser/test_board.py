"""The board in a real browser: sign in, see agents move, lose the coordinator, find it again."""

import re
from typing import Literal

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

import fedbandit as fb
from tests.browser.stage import Stage
from tests.service.running import make_model, make_token, running

pytestmark = pytest.mark.browser
PATIENCE = 30_000


def sign_in(page: Page, stage: Stage) -> None:
    page.goto(stage.address)
    page.get_by_label("Admin token").fill(stage.admin)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Models")).to_be_visible(timeout=PATIENCE)


def open_model(page: Page, name: str = "news") -> None:
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible(timeout=PATIENCE)


def observations(page: Page) -> int:
    tile = page.locator(".tile", has_text="Observations").locator("b")
    return int((tile.text_content() or "0").replace(",", ""))


def test_the_whole_story(page: Page, stage: Stage) -> None:
    page.goto(stage.address)
    page.get_by_label("Admin token").fill("not a token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not an admin token")

    sign_in(page, stage)
    assert stage.admin not in page.url
    assert stage.admin not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
    open_model(page)
    agents = page.get_by_role("region", name="Agents").get_by_role("row")
    expect(agents).to_have_count(4, timeout=PATIENCE)  # and the head
    expect(page.locator("#link")).to_have_text("Live")

    before = observations(page)  # agents move, without a click
    page.wait_for_function(
        "before => Number([...document.querySelectorAll('.tile')].find(t => "
        "t.textContent.includes('Observations')).querySelector('b').textContent"
        ".replace(',', '')) > before",
        arg=before,
        timeout=PATIENCE,
    )
    for title in ("Average reward", "Prediction error", "Bytes", "Spectrum", "Uploads"):
        expect(page.get_by_role("img", name=re.compile(f"^{title}"))).to_be_visible()

    stage.process.kill()
    expect(page.locator("#link")).to_have_text("Connection lost", timeout=PATIENCE)
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    assert observations(page) > 0  # what was there is still shown

    stage.start_again()
    expect(page.locator("#link")).to_have_text("Live", timeout=2 * PATIENCE)
    expect(page.locator("#alarm")).to_be_hidden()
    assert observations(page) >= before

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin token")).to_be_visible()


def test_charts_are_tables_too_and_stay_open(page: Page, stage: Stage) -> None:
    sign_in(page, stage)
    open_model(page)
    figure = page.locator("figure", has_text="Average reward").first
    figure.get_by_text("Show as a table").focus()
    page.keyboard.press("Enter")
    expect(figure.get_by_role("columnheader", name="Rewards")).to_be_visible()
    page.wait_for_timeout(4000)  # it was drawn again meanwhile
    expect(figure.get_by_role("columnheader", name="Rewards")).to_be_visible()


def test_a_range_is_part_of_the_address(page: Page, stage: Stage) -> None:
    sign_in(page, stage)
    open_model(page)
    page.get_by_role("link", name="Last hour").click()
    expect(page.get_by_role("link", name="Last hour")).to_have_attribute("aria-current", "true")
    page.reload()
    expect(page.get_by_role("link", name="Last hour")).to_have_attribute(
        "aria-current", "true", timeout=PATIENCE
    )
    page.go_back()
    expect(page.get_by_role("link", name="Last day")).to_have_attribute("aria-current", "true")


def test_what_is_empty_says_what_to_do(page: Page, stage: Stage) -> None:
    sign_in(page, stage)
    open_model(page, "idle")
    expect(page.get_by_text("fedbandit token create idle AGENT")).to_be_visible()
    page.goto(f"{stage.address}/#model=gone&range=day")
    expect(page.get_by_role("heading", name="No such model")).to_be_visible(timeout=PATIENCE)


def test_an_open_coordinator_without_models_needs_no_token(page: Page, tmp_path: str) -> None:
    with running(f"sqlite:///{tmp_path}/open.db", "--open") as process:
        page.goto(process.address)
        expect(page.get_by_text("fedbandit model create news")).to_be_visible(timeout=PATIENCE)
        expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_use_it(
    browser: Browser, stage: Stage, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(stage.address)
    check(page)
    sign_in(page, stage)
    check(page)
    open_model(page)
    expect(page.get_by_role("img", name=re.compile("^Spectrum"))).to_be_visible(timeout=PATIENCE)
    page.get_by_text("Show as a table").first.click()
    check(page)
    stage.process.kill()
    expect(page.locator("#link")).to_have_text("Connection lost", timeout=PATIENCE)
    check(page)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shadow_mode_is_shown_once_agents_tell_of_it(
    browser: Browser, stage: Stage, scheme: Literal["light", "dark"]
) -> None:
    name = f"trial-{scheme}"
    make_model(stage.url, name, fb.FedLinUCB(dimension=4, agents=2))
    agreements = [shadowed(stage, name, f"till-{k}", seed=k) for k in range(2)]
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    sign_in(page, stage)
    open_model(page, name)
    shadow = page.get_by_role("region", name="Shadow mode", exact=True)
    expect(shadow).to_contain_text("2 agents in shadow mode", timeout=PATIENCE)
    expect(shadow.get_by_role("img", name=re.compile("^Gain over the rule"))).to_be_visible()
    rows = shadow.get_by_role("row")
    expect(rows).to_have_count(3)
    for k, agreement in enumerate(agreements):
        expect(rows.filter(has_text=f"till-{k}")).to_contain_text(f"{100 * agreement:.1f} %")
    check(page)
    context.close()


def shadowed(stage: Stage, model: str, agent: str, *, seed: int) -> float:
    """Let an agent shadow a rule that picks at random; return how often it agreed."""
    rng, token = np.random.default_rng(seed), make_token(stage.url, model=model, agent=agent)
    with fb.connect(stage.address, model=model, agent=agent, token=token) as connected:
        for _ in range(600):
            arms = rng.uniform(0.0, 1.0, (3, 4)) * [1.0, 0.1, 0.1, 0.1]
            baseline = int(rng.integers(3))
            decision = connected.decide(arms, baseline=baseline, baseline_probability=1 / 3)
            connected.reward(decision.id, float(rng.random() < arms[decision.index, 0]))
        connected.sync(everything=True)
        return connected.status().shadow.agreement


def check(page: Page) -> None:
    """No serious trouble for those who use a keyboard or a screen reader; nothing sticks out."""
    for width in (390, 800, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        found = Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert serious == [], [(each["id"], each["nodes"][0]["html"]) for each in serious]
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_api_can_be_read_and_tried(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.address}/docs")
    healthz = page.locator("#operations-Operators-healthz")
    healthz.locator(".opblock-summary-control").click()
    expect(healthz.get_by_text("curl http://127.0.0.1:8400/healthz")).to_be_visible()
    healthz.get_by_role("button", name="Try it out").click()
    healthz.get_by_role("button", name="Execute").click()
    expect(healthz.locator(".live-responses-table").get_by_text('"alive"')).to_be_visible(
        timeout=PATIENCE
    )
