import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fedbandit.errors import OutputError
from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.statistics import Estimate
from fedbandit.lab.analysis.summary import summarise
from fedbandit.lab.analysis.text import compact, number, percent, percent_interval, plus_minus
from fedbandit.lab.analysis.tuning import Choice
from fedbandit.lab.figures.charts import Chart, curve_charts
from fedbandit.lab.figures.panels import QUANTITIES, Panel
from fedbandit.lab.paper.algorithms import PAPER_ALGORITHMS, assumptions
from fedbandit.lab.paper.claims import findings
from fedbandit.lab.paper.classes import ClassRow, ClassTable, class_table
from fedbandit.lab.paper.gains import Gain
from fedbandit.lab.paper.report import (
    ChartGroup,
    Report,
    write_report,
)
from fedbandit.lab.runs.machine import environment
from fedbandit.lab.study.settings import SETTINGS
from fedbandit.lab.study.study import FULL, Size
from tests.lab.made_runs import paper_runs

SECTIONS = ("claims", "figures", "table", "details", "theory", "tuning", "classes", "settings")
GAIN = Gain("satimage", Estimate(0.033, 0.001), Estimate(0.134, 0.01), Estimate(0.0028, 0.0001))
LOADING = ("src", "href", "data", "srcset", "poster", "action")


class Page(HTMLParser):
    """Collects what a browser would follow, and the text that a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in LOADING]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def made_report(reward: float = 990.0, seconds: float = 0.1) -> Report:
    runs = pa.concat_tables(
        paper_runs(setting=each.name, reward=reward, seconds=seconds) for each in SETTINGS
    )
    theory = paper_runs(setting="satimage", radius="paper", reward=500.0)
    learners = theory.filter(pc.not_equal(theory["algorithm"], "Random"))
    found = curves(pa.concat_tables([runs, learners]))
    tuned = [each for each in found if each.radius != "paper"]
    panels = [Panel("A <panel>", tuple(each for each in tuned if each.setting == "satimage"))]
    tried = ((0.1, Estimate(5.0, 1.0)), (0.5, Estimate(7.0, 1.0)))
    return Report(
        size=Size(trials=4, rounds=100, tuning_trials=2, grid=(0.1, 0.5)),
        settings=SETTINGS,
        gains=[GAIN],
        charts=[ChartGroup("A <figure>", "What it shows", curve_charts(panels, QUANTITIES[0]))],
        tuned=findings(found, SETTINGS, radius="tuned"),
        theoretical=findings(found, SETTINGS, radius="paper"),
        tuned_rows=summarise(tuned),
        theoretical_rows=summarise([each for each in found if each.radius == "paper"]),
        choices=[Choice("satimage", "FSCLB", 0.5, tried)],
        by_class=[class_table(tuned, SETTINGS[2], tuned_on=(4, 5))],
        parameters=assumptions(PAPER_ALGORITHMS),
        environment=environment(),
    )


def page_of(report: Report, directory: Path) -> Page:
    return Page(write_report(report, directory / "report.html").read_text(encoding="utf-8"))


def test_the_page_needs_nothing_beside_it(tmp_path: Path) -> None:
    path = write_report(made_report(), tmp_path / "report.html")
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    ours = re.sub(r'<script type="text/plain" id="plotly">[^<]*', "", html)
    assert re.search(r"https?:|//[a-z]|@import|url\(", ours) is None


def test_charts_are_the_numbers_that_were_run_and_cannot_end_their_script(tmp_path: Path) -> None:
    report = made_report()
    html = write_report(report, tmp_path / "report.html").read_text(encoding="utf-8")
    specs = re.findall(r'<script type="application/json">(.*?)</script>', html)
    assert len(specs) == 1
    traces = json.loads(specs[0])["data"]
    drawn = {trace["name"]: trace["y"][-1] for trace in traces if "name" in trace}
    rows = {row.algorithm: row for row in report.tuned_rows if row.setting == "satimage"}
    assert set(drawn) == set(rows)
    for name, end in drawn.items():
        assert end == pytest.approx(rows[name].estimates["regret"].mean, rel=1e-5)
    unsafe = Chart("t", "w", ({"name": "</script><b>"},), {})
    assert "<" not in unsafe.spec
    assert json.loads(unsafe.spec)["data"][0]["name"] == "</script><b>"


def test_gains_come_first_where_there_are_any(tmp_path: Path) -> None:
    report = made_report()
    text = page_of(report, tmp_path).text
    assert text.index(percent_interval(GAIN.bytes)) < text.index("The paper says")
    without = page_of(replace(report, gains=[]), tmp_path)
    assert "gains" not in without.ids
    assert "#gains" not in without.links


def test_every_section_is_there_and_every_link_leads_to_one(tmp_path: Path) -> None:
    page = page_of(made_report(), tmp_path)
    assert page.open == []
    sections = {*SECTIONS, "gains", "machine"}
    assert sections | {"plotly"} == set(page.ids)
    assert {link[1:] for link in page.links} == sections
    for words in ("A <figure>", "at the edge of the grid", "numpy", "Processor", "synthetic d=100"):
        assert words in page.text


def test_the_verdicts_follow_the_numbers(tmp_path: Path) -> None:
    good = page_of(made_report(reward=995.0), tmp_path).text
    assert "holds at 4 of 4 settings" in good
    assert "0.5 % [0.5, 0.5]" in good
    assert "earned and sent exactly the same" in good
    bad = page_of(made_report(reward=800.0, seconds=20.0), tmp_path).text
    assert bad.count("does not hold at 4 of 4 settings") > good.count(
        "does not hold at 4 of 4 settings"
    )
    assert "\N{MINUS SIGN}300.0 %" in bad


def test_the_theoretical_radius_is_judged_apart(tmp_path: Path) -> None:
    text = page_of(made_report(), tmp_path).text
    assert "50.0\N{NO-BREAK SPACE}% of the lead lost" in text
    assert "does not hold at 1 of 1 setting" in text


def test_a_shortened_run_says_so(tmp_path: Path) -> None:
    report = made_report()
    assert "20 trials of 20,000 rounds" in page_of(report, tmp_path).text
    tried = tuple((radius, Estimate(5.0, 1.0)) for radius in FULL.grid)
    full = replace(report, size=FULL, choices=[Choice("satimage", "FSCLB", 0.5, tried)])
    assert (FULL.trials, FULL.rounds, FULL.tuning_trials) == (20, 20_000, 4)
    assert "shortened" not in page_of(full, tmp_path).text
    for less in (
        replace(FULL, trials=19),
        replace(FULL, rounds=19_999),
        replace(FULL, tuning_trials=2),
        replace(FULL, grid=report.size.grid),
    ):
        assert "shortened" in page_of(replace(full, size=less), tmp_path).text


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ((3, 4), "from 3 to 4 reported trials"),
        ((4, 4), "All classes have 4 reported trials"),
        ((4,), "from 0 to 4 reported trials"),
    ],
)
def test_uneven_classes_are_told(tmp_path: Path, trials: tuple[int, ...], words: str) -> None:
    rows = tuple(ClassRow(target, count, (0.5,)) for target, count in enumerate(trials))
    table = ClassTable("satimage", ("FSCLB",), rows, classes=2, tuned_on=(1,))
    text = page_of(replace(made_report(), by_class=[table]), tmp_path).text
    assert "picked on 1 of the 2 classes: 1." in text
    assert words in text


def test_directory_in_the_way_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write_report(made_report(), tmp_path)


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    report = made_report()
    first = write_report(report, tmp_path / "a.html").read_bytes()
    assert write_report(report, tmp_path / "b.html").read_bytes() == first


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (number(12345.6), "12,346"),
        (number(123.44), "123.4"),
        (number(1.234), "1.23"),
        (number(0.01234), "0.0123"),
        (number(0.0), "0"),
        (number(float("nan")), "\N{EN DASH}"),
        (compact(950.0), "950.0"),
        (compact(142_800.0), "142.8 k"),
        (compact(1_490_000.0), "1.49 M"),
        (plus_minus(Estimate(1772.4, 33.6)), "1,772 ± 34"),
        (plus_minus(Estimate(0.19234, 0.0281)), "0.192 ± 0.028"),
        (plus_minus(Estimate(5.0, float("nan"))), "5.00"),
        (plus_minus(Estimate(0.0, 0.0)), "0 ± 0"),
        (plus_minus(Estimate(5.0, 1e-13)), "5.000000 ± 0.000000"),
        (plus_minus(Estimate(7.0, 0.0)), "7.00 ± 0"),
        (percent(-0.123), "\N{MINUS SIGN}12.3 %"),
        (percent_interval(Estimate(0.01, 0.02)), "1.0 % [\N{MINUS SIGN}1.0, 3.0]"),
        (percent_interval(Estimate(0.01, float("nan"))), "1.0 %"),
    ],
)
def test_numbers_as_written(written: str, expected: str) -> None:
    assert written == expected
