from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, OutputError, UnknownName
from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.figures.looks import LOOKS
from fedbandit.lab.figures.panels import (
    QUANTITIES,
    Panel,
    Quantity,
    compose,
    draw_panels,
    draw_runs,
    panels_by_setting,
)
from fedbandit.lab.runs.columns import SCHEMA
from tests.lab.made_runs import made_trials, paper_runs

SIGNATURES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
REGRET, TIME, SCALARS = QUANTITIES


def composed(runs: pa.Table, quantity: Quantity) -> Figure:
    return compose(panels_by_setting(curves(runs)), quantity)


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def two_settings() -> pa.Table:
    return pa.concat_tables(
        [paper_runs(setting="synthetic d=100"), paper_runs(setting="synthetic d=50")]
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return draw_runs(paper_runs(), tmp_path_factory.mktemp("figures") / "new")


def test_every_format_of_every_quantity_is_drawn(drawn: list[Path]) -> None:
    assert {path.name for path in drawn} == {
        f"{quantity.file}.{kind}" for quantity in QUANTITIES for kind in SIGNATURES
    }
    for path in drawn:
        content = path.read_bytes()
        assert content.startswith(SIGNATURES[path.suffix[1:]])
        assert len(content) > 5000


def test_drawing_again_gives_the_same_bytes(drawn: list[Path], tmp_path: Path) -> None:
    again = draw_runs(paper_runs(), tmp_path, formats=["svg", "pdf"])
    first = {path.name: path.read_bytes() for path in drawn}
    assert all(path.read_bytes() == first[path.name] for path in again)


def test_a_panel_per_setting_in_natural_order() -> None:
    figure = composed(two_settings(), REGRET)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["synthetic d=50", "synthetic d=100"]
    assert figure.axes[0].get_ylabel().startswith("cumulative regret")


def test_an_odd_number_of_settings_leaves_no_empty_panel() -> None:
    tables = [paper_runs(setting=name) for name in "abc"]
    assert len(composed(pa.concat_tables(tables), TIME).axes) == 3


def test_other_lengths_of_a_setting_get_a_panel_each() -> None:
    runs = pa.concat_tables([paper_runs(rounds=100), paper_runs(rounds=2000)])
    titles = [axes.get_title(loc="left") for axes in composed(runs, REGRET).axes]
    assert titles == ["synthetic d=50, 100 rounds", "synthetic d=50, 2,000 rounds"]


def heights(line: Line2D) -> NDArray[np.float64]:
    return np.asarray(line.get_ydata(), dtype=np.float64)


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.file)
def test_every_line_lies_inside_its_panel(quantity: Quantity) -> None:
    for axes in composed(two_settings(), quantity).axes:
        low, high = axes.get_ylim()
        assert len(axes.get_lines()) == 4
        for line in axes.get_lines():
            assert low <= heights(line).min() <= heights(line).max() <= high
        assert axes.get_xlim() == (0.0, 100.0)


def test_lines_end_at_the_mean_over_trials() -> None:
    runs = made_trials({"regret": [10.0, 20.0, 60.0]}, algorithm="FSCLB")
    (line,) = composed(runs, REGRET).axes[0].get_lines()
    assert heights(line) == pytest.approx([6.0, 12.0, 18.0, 24.0, 30.0])


def test_a_log_axis_only_where_lines_are_an_order_of_magnitude_apart() -> None:
    def scale(lower: float) -> str:
        lines = [
            made_trials({"seconds": [10.0, 10.0]}, algorithm="FedLinUCB"),
            made_trials({"seconds": [lower, lower]}, algorithm="FSCLB"),
        ]
        axes = composed(pa.concat_tables(lines), TIME).axes[0]
        assert ("log scale" in axes.get_ylabel()) == (axes.get_yscale() == "log")
        return axes.get_yscale()

    assert scale(0.5) == "log"
    assert scale(2.0) == "linear"
    assert scale(0.0) == "linear"


def test_a_wide_band_does_not_stretch_a_log_axis() -> None:
    lines = [
        made_trials({"regret": [1000.0, 1000.0]}, algorithm="Random"),
        made_trials({"regret": [10.0, 50.0]}, algorithm="FSCLB"),
    ]
    axes = composed(pa.concat_tables(lines), REGRET).axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] == pytest.approx(6.0 / 2)
    assert axes.get_ylim()[1] < 1e4


def test_an_algorithm_has_the_same_colour_everywhere() -> None:
    alone = composed(made_trials({"regret": [1.0, 2.0]}, algorithm="Random"), REGRET)
    assert alone.axes[0].get_lines()[0].get_color() == LOOKS["Random"].colour
    among = composed(paper_runs(), TIME)
    colours = {line.get_color() for line in among.axes[0].get_lines()}
    names = ("FSCLB", "FedLinUCB", "FedLinUCB (published)", "Random")
    assert colours == {LOOKS[name].colour for name in names}


def test_looks_differ_in_more_than_colour() -> None:
    looks = [(str(look.dashes), look.width) for look in LOOKS.values()]
    assert len(set(looks)) == len(looks)
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)


def test_the_legend_says_who_sends_nothing() -> None:
    assert legend(composed(paper_runs(), REGRET)) == [
        "FSCLB",
        "FedLinUCB",
        "FedLinUCB (published)",
        "Random",
    ]
    assert "Random (sends nothing)" in legend(composed(paper_runs(), SCALARS))


def test_lines_that_differ_in_radius_alone_say_so() -> None:
    ending = {"regret": [1.0, 2.0]}
    runs = [made_trials(ending, radius=radius) for radius in ("paper", "tuned (0.3)")]
    runs.append(made_trials(ending, algorithm="Random", radius="none"))
    named = legend(composed(pa.concat_tables(runs), REGRET))
    assert named == ["FSCLB, tuned", "FSCLB, paper", "Random"]
    runs.append(made_trials(ending, radius="tuned (0.5)"))
    figure = composed(pa.concat_tables(runs), REGRET)
    named = ["FSCLB, tuned (0.3)", "FSCLB, tuned (0.5)", "FSCLB, paper", "Random"]
    assert legend(figure) == named
    lines = [line for line in figure.axes[0].get_lines() if line.get_color() != "#7A7A7A"]
    assert {line.get_color() for line in lines} == {LOOKS["FSCLB"].colour}
    assert len({str(line.get_linestyle()) + str(line.get_linewidth()) for line in lines}) > 1


def test_names_of_ones_own_get_colours_of_their_own() -> None:
    runs = [made_trials({"regret": [1.0]}, algorithm=name) for name in ("mine", "yours")]
    lines = composed(pa.concat_tables(runs), REGRET).axes[0].get_lines()
    colours = {line.get_color() for line in lines}
    assert len(colours) == 2
    assert not colours & {look.colour for look in LOOKS.values()}


def test_one_trial_is_drawn_without_a_band(tmp_path: Path) -> None:
    runs = made_trials({"regret": [5.0], "seconds": [1.0], "scalars": [10.0]})
    assert len(draw_runs(runs, tmp_path, formats=["png"])) == 3


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="the table has no runs"):
        draw_runs(SCHEMA.empty_table(), tmp_path)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "reward.png").mkdir()
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match=r"cannot be written .*Choose another --out"):
            draw_runs(two_settings(), place, formats=["png"])


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="formats: got 'jpeg'"):
        draw_runs(two_settings(), tmp_path / "new", formats=["png", "jpeg"])
    assert not (tmp_path / "new").exists()


def test_panels_can_be_titled_freely(tmp_path: Path) -> None:
    panels = [Panel("a title", tuple(curves(paper_runs())))]
    (first, *_) = draw_panels(panels, tmp_path, suffix="-mine", formats=["svg"])
    assert first.name == "reward-mine.svg"
