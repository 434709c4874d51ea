"""How a model does, in lines of text: the numbers of the board, for ``fedbandit model show``."""

from typing import Any

TOLD = ("average", "early", "lately", "verdict", "theta", "spectrum", "totals", "refusals")
"""Those parts of the board's view of a model that ``--json`` has too."""


def progress_lines(view: dict[str, Any]) -> list[str]:
    """Return what became of a model since progress is kept; nothing before the first upload."""
    if not view["totals"]["uploads"]:
        return []
    from fedbandit.service.board.doubts import doubts_sentences

    shadow = [] if view["shadow"] is None else [view["shadow"]["sentence"]]
    rest = (_theta(view), _spectrum(view), _traffic(view))
    doubts = doubts_sentences(view["doubted"])
    return [*doubts, *_rewards(view), *shadow, *rest, *_refusals(view)]


def held_text(held: int, version: int) -> str:
    """Return the version that an agent holds, and how far behind that is."""
    if not held:
        return "-"
    return f"{held:,}" if held >= version else f"{held:,} ({version - held:,} behind)"


def _rewards(view: dict[str, Any]) -> list[str]:
    early, lately, verdict = view["early"], view["lately"], view["verdict"]
    if view["average"] is None:
        return ["average reward: no agent told of rewards yet"]
    if verdict is None:
        return [f"average reward {view['average']:.4g}; too early for a trend"]
    clear = "" if verdict["clear"] else " (no clear change)"
    change = f"{verdict['change']:+.4g} ± {2 * verdict['error']:.2g}{clear}"
    lines = [
        f"average reward {lately['average']:.4g} in the {lately['label']}, {early['average']:.4g} "
        f"in the {early['label']}: {change}"
    ]
    if lately["judged"]:
        lines.append(
            f"its own estimate {lately['estimate']:.4g} in the {lately['label']}, where it earned "
            f"{lately['earned']:.4g}; prediction error {lately['error']:.4g}, against "
            f"{lately['deviation']:.4g} of always guessing the average"
        )
    return lines


def _theta(view: dict[str, Any]) -> str:
    theta = view["theta"]
    length = theta["length"]
    share = f" ({_percent(theta['hour'] / length)} of its length)" if length else ""
    return (
        f"theta moved by {theta['hour']:.3g}{share} in the last hour, {theta['day']:.3g} in a day"
    )


def _spectrum(view: dict[str, Any]) -> str:
    spectrum = view["spectrum"]
    lost = "" if spectrum["lost"] is None else f", {_percent(spectrum['lost'])} of everything"
    shed = f"shed at most {spectrum['shed']:.4g} along any{lost}"
    return f"the {spectrum['kind']} holds {spectrum['directions']} directions; {shed}"


def _traffic(view: dict[str, Any]) -> str:
    totals, times = view["totals"], view["totals"]["times"]
    saved = f"; FedLinUCB sends {times:.1f} times that in as many syncs" if times else ""
    return (
        f"{totals['received']:,} bytes up, {totals['sent']:,} down in {totals['uploads']:,} uploads"
        f"{saved}"
    )


def _refusals(view: dict[str, Any]) -> list[str]:
    return [
        f"refused {each['count']} times: {each['status']} {each['field']}, last {each['agent']}: "
        f"{each['message']}"
        for each in view["refusals"]
    ]


def _percent(share: float) -> str:
    """Write a share that is not negative."""
    if 0.0 < share < 0.5e-4:
        return "less than 0.01 %"
    return f"{100 * share:.{1 if share >= 0.01 else 2}f} %"
