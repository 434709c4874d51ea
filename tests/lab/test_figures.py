from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit.errors import InvalidParameter, OutputError, UnknownName
from fedbandit.lab import parse_spec
from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.figures.advice import TRADE_LOOKS
from fedbandit.lab.figures.differences import compose_differences, difference_figure, overlapping
from fedbandit.lab.figures.drawing import draw_runs
from fedbandit.lab.figures.looks import LOOKS, spare
from fedbandit.lab.figures.panels import (
    QUANTITIES,
    Panel,
    Quantity,
    compose,
    draw_panels,
    panels_by_setting,
)
from fedbandit.lab.figures.sweeps import compose_sweep, compose_trade, sweep_figures
from fedbandit.lab.runs.columns import SCHEMA
from fedbandit.lab.runs.records import record
from tests.lab.made_runs import made_trials, paper_runs

SIGNATURES = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
REGRET, TIME, SCALARS, BYTES = QUANTITIES


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
        f"{name}.{kind}"
        for name in (*(quantity.file for quantity in QUANTITIES), "difference")
        for kind in SIGNATURES
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
    assert len(draw_runs(runs, tmp_path, formats=["png"])) == 4


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="the table has no runs"):
        draw_runs(SCHEMA.empty_table(), tmp_path)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "regret.png").mkdir()
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
    (first, *_) = draw_panels({"-mine": panels}, tmp_path, formats=["svg"])
    assert first.name == "regret-mine.svg"


def test_processes_draw_what_one_draws(tmp_path: Path) -> None:
    panels = {"": [Panel("a title", tuple(curves(paper_runs())))]}
    alone = draw_panels(panels, tmp_path / "alone", formats=["svg"])
    together = draw_panels(panels, tmp_path / "together", formats=["svg"], jobs=2)
    assert [path.name for path in alone] == [path.name for path in together]
    assert [path.read_bytes() for path in alone] == [path.read_bytes() for path in together]


def box_is_inside(figure: Figure) -> bool:
    figure.draw_without_rendering()
    box, page = figure.legends[0].get_window_extent(), figure.bbox
    return bool(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1)


@pytest.mark.parametrize("algorithms", [1, 4, 12])
@pytest.mark.parametrize("length", [3, 30, 70])
def test_no_legend_is_cut_off(algorithms: int, length: int) -> None:
    names = [f"{index:02}{'m' * length}" for index in range(algorithms)]
    runs = [made_trials({"regret": [1.0, 2.0]}, algorithm=name) for name in names]
    assert box_is_inside(composed(pa.concat_tables(runs), REGRET))


def test_a_dozen_algorithms_differ_in_colour_and_in_grey() -> None:
    looks = [spare(place) for place in range(12)]
    assert len({(look.colour, look.marker) for look in looks}) == 12
    assert len({(str(look.dashes), look.marker) for look in looks}) == 12
    steps = {"buffered", "averaged", "corrected"}  # lines of the frontier, beside these three
    frontier = steps | {"FSCLB", "FSCLB.lean", "FedLinUCB"}
    for together in (LOOKS.keys() - steps, frontier):
        markers = [LOOKS[name].marker for name in together]
        assert len(set(markers)) == len(markers)
        assert not set(markers) & {"8", "h", "H", "p"}  # small, they look like circles
    runs = [made_trials({"regret": [1.0]}, algorithm=f"mine {index:02}") for index in range(12)]
    drawn = composed(pa.concat_tables(runs), REGRET).axes[0].get_lines()
    assert [line.get_color() for line in drawn] == [look.colour for look in looks]


def test_fonts_are_embedded_as_truetype(drawn: list[Path]) -> None:
    for path in drawn:
        if path.suffix == ".pdf":
            assert b"/FontFile2" in path.read_bytes()
            assert b"/Type3" not in path.read_bytes()


def test_frontier_and_advice_look_as_the_curves_do() -> None:
    assert {each: TRADE_LOOKS[each].colour for each in ("FSCLB", "FSCLB.lean", "FedLinUCB")} == {
        each: LOOKS[each].colour for each in ("FSCLB", "FSCLB.lean", "FedLinUCB")
    }


def test_differences_are_paired_and_shown_where_bands_overlap() -> None:
    near = made_trials({"regret": [10.0, 30.0, 50.0]}, algorithm="FSCLB")
    best = made_trials({"regret": [8.0, 28.0, 48.0]}, algorithm="FedLinUCB")
    (panel,) = panels_by_setting(curves(pa.concat_tables([near, best])))
    assert overlapping(panel)
    axes = compose_differences([panel]).axes[0]
    (line,) = [each for each in axes.get_lines() if len(heights(each)) == 5]
    assert heights(line)[-1] == pytest.approx(2.0)
    assert axes.collections[0].get_datalim(axes.transData).height < 2.1  # the pairs agree
    far = made_trials({"regret": [400.0, 410.0, 420.0]}, algorithm="Random")
    (panel,) = panels_by_setting(curves(pa.concat_tables([best, far])))
    assert difference_figure([panel]) == {}


def swept_runs() -> pa.Table:
    content = {
        "rounds": 30,
        "trials": 2,
        "worlds": {"w": {"kind": "synthetic", "dimension": 4, "arms": 3, "agents": [1, 2]}},
        "recipes": {
            "FSCLB": {"kind": "FSCLB", "sketch_size": [2, 3, 4], "radius": 0.3},
            "mine": {"kind": "FedLinUCB", "radius": 0.3},
        },
    }
    records = [
        record(task, fb.simulate(task.recipe, task.world, rounds=task.rounds))
        for task in parse_spec(content).tasks()
    ]
    return pa.concat_tables(records)


def test_sweeps_have_figures_of_their_own() -> None:
    found = curves(swept_runs())
    assert set(sweep_figures(found)) == {
        "regret-by-sketch_size",
        "bytes-by-sketch_size",
        "regret-by-agents",
        "bytes-by-agents",
        "bytes-against-regret",
    }
    figure = compose_sweep(found, "sketch_size", "regret")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["w, agents=1", "w, agents=2"]
    assert legend(figure) == ["FSCLB", "mine"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert box_is_inside(figure)
    by_agents = compose_sweep(found, "agents", "bytes")
    assert legend(by_agents) == [*(f"FSCLB, sketch_size={size}" for size in (2, 3, 4)), "mine"]
    colours = {each.get_color() for each in by_agents.legends[0].get_lines()}
    assert colours == {LOOKS["FSCLB"].colour, LOOKS["FedLinUCB"].colour}
    assert len(compose_trade(found).axes) == 2
