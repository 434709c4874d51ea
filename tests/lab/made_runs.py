"""Tables of runs with chosen endings: what the runner would have stored, without running."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from fedbandit.lab.analysis.curves import MEASURES, Curves, curves
from fedbandit.lab.runs.columns import REQUIRED, conformed

Finals = Mapping[str, Sequence[float]]


def made_run(
    finals: Mapping[str, float],
    *,
    setting: str = "synthetic d=50",
    algorithm: str = "FSCLB",
    radius: str = "tuned (0.3)",
    trial: int = 0,
    rounds: int = 100,
    points: int = 5,
) -> pa.Table:
    """One run that grows in a straight line to the given final values (0 where none is given)."""
    at = np.linspace(0, rounds, points + 1).astype(np.int64)[1:]
    labels = {
        "key": f"{setting}/{algorithm}/{radius}/{rounds}/{trial}",
        "setting": setting,
        "algorithm": algorithm,
        "radius": radius,
        "trial": trial,
        "rounds": rounds,
    }
    columns: dict[str, object] = {name: [value] * points for name, value in labels.items()}
    columns["round"] = at
    for measure in MEASURES:
        grown = at / rounds * finals.get(measure, 0.0)
        whole = pa.types.is_integer(REQUIRED.field(measure).type)
        columns[measure] = np.rint(grown).astype(np.int64) if whole else grown
    return conformed(pa.table(columns, schema=REQUIRED))


def made_trials(
    finals: Finals,
    *,
    setting: str = "synthetic d=50",
    algorithm: str = "FSCLB",
    radius: str = "tuned (0.3)",
    rounds: int = 100,
    first: int = 0,
) -> pa.Table:
    """One run per trial; ``finals`` gives each measure's final value in every trial."""
    trials = len(next(iter(finals.values())))
    return pa.concat_tables(
        made_run(
            {name: values[trial] for name, values in finals.items()},
            setting=setting,
            algorithm=algorithm,
            radius=radius,
            trial=first + trial,
            rounds=rounds,
        )
        for trial in range(trials)
    )


def paper_runs(
    *,
    setting: str = "synthetic d=50",
    radius: str = "tuned (0.3)",
    reward: float = 990.0,
    lead: float = 1000.0,
    seconds: float = 0.1,
    published_seconds: float = 10.0,
    best_seconds: float = 5.0,
    scalars: float = 10_000.0,
    best_scalars: float = 51_000.0,
    uploads: float = 10.0,
    wobble: float = 0.0,
    trials: int = 4,
    rounds: int = 100,
) -> pa.Table:
    """FSCLB, both forms of FedLinUCB and Random in one setting, with the endings to be judged.

    FedLinUCB earns ``lead`` and Random nothing; it uploads 10 times, ``best_scalars`` in all.
    FSCLB's reward moves by ``wobble`` from trial to trial, with the mean unchanged.
    """
    swing = np.resize([wobble, -wobble], trials)

    def ending(earned: float, took: float, sent: float, times: float) -> dict[str, list[float]]:
        return {
            "reward": [earned] * trials,
            "regret": [lead * 1.1 - earned] * trials,
            "seconds": [took] * trials,
            "uploads": [times] * trials,
            "scalars": [sent] * trials,
            "bytes": [8 * sent] * trials,
        }

    ours = ending(reward, seconds, scalars, uploads)
    ours["reward"] = list(reward + swing)
    endings = {
        "FSCLB": ours,
        "FedLinUCB": ending(lead, best_seconds, best_scalars, 10.0),
        "FedLinUCB (published)": ending(lead, published_seconds, best_scalars, 10.0),
        "Random": ending(0.0, 0.01, 0.0, 0.0),
    }
    return pa.concat_tables(
        made_trials(
            finals,
            setting=setting,
            algorithm=algorithm,
            radius="none" if algorithm == "Random" else radius,
            rounds=rounds,
        )
        for algorithm, finals in endings.items()
    )


def one(table: pa.Table) -> Curves:
    """The only curves of a table."""
    (found,) = curves(table)
    return found
