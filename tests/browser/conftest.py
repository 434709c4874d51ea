"""A real browser, and a coordinator in a process of its own with a small fleet behind it."""

import os
import shutil
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import fedbandit as fb
from tests.browser.stage import D, Stage
from tests.service.running import make_model, make_token, start

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or the one that CHROMIUM names."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert path, "These tests need Chromium. Install it (tools/chromium), or name it in CHROMIUM."
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, that fails a test if a script of it fails or it asks another host."""
    context = browser.new_context()
    opened, trouble = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(("http://127.0.0.1:", "data:", "blob:"))
            else trouble.append(asked.url)
        ),
    )
    yield opened
    context.close()
    assert trouble == []


@pytest.fixture(scope="session")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    url = f"sqlite:///{tmp_path_factory.mktemp('stage')}/stage.db"
    make_model(url, "news", fb.FSCLB(dimension=D, sketch_size=4, agents=3))
    make_model(url, "idle", fb.FSCLB(dimension=D, sketch_size=4, agents=3))
    names = ("phone-1", "phone-2", "till-3")
    tokens = {name: make_token(url, model="news", agent=name) for name in names}
    made = Stage(url, make_token(url, model=None, agent=None), start(url), tokens)
    fleet = [
        threading.Thread(target=made.play, args=(name, seed)) for seed, name in enumerate(names)
    ]
    for each in fleet:
        each.start()
    yield made
    made.stopping.set()
    for each in fleet:
        each.join(60)
    made.process.kill()


@pytest.fixture
def stage(set_up: Stage) -> Stage:
    """The stage, with a coordinator that runs."""
    if set_up.process.process.poll() is not None:
        set_up.start_again()
    return set_up
