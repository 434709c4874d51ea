"""The guide as pages, in a real browser: nothing sticks out, nothing is missing."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copy, copytree
from threading import Thread

import pytest
from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
MISSING = """() => [...document.querySelectorAll("article img")]
  .filter((each) => !each.alt || !each.naturalWidth).map((each) => each.src)"""

pytestmark = pytest.mark.browser


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Build the guide; return where it is served, and its pages."""
    place = tmp_path_factory.mktemp("site")
    copy(ROOT / "mkdocs.yml", place)
    for name in ("docs", "src"):
        copytree(ROOT / name, place / name, ignore=lambda _, names: {"__pycache__"} & {*names})
    zensical = f"{Path(sys.executable).parent / 'zensical'}"
    build = [zensical, "build", "--strict", "--config-file", "mkdocs.yml"]
    subprocess.run(build, cwd=place, check=True, capture_output=True)
    pages = sorted(f"{page.relative_to(place / 'site')}" for page in place.glob("site/**/*.html"))
    handler = partial(Quiet, directory=f"{place / 'site'}")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", pages
        server.shutdown()


def test_no_page_is_wider_than_the_window(site: tuple[str, list[str]], page: Page) -> None:
    address, pages = site
    assert "start.html" in pages
    for name in pages:
        page.goto(f"{address}/{name}")
        for width in (390, 800, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        assert page.evaluate(MISSING) == [], name
