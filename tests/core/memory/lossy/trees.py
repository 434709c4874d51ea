"""Random trees of what fleets do to lossy summaries, beside the dense truth that they stand for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.memory.lossy.fitted import Fitted, fitted, upload_charge
from fedbandit.core.memory.lossy.summary import (
    LossyGram,
    LossyRows,
    empty_matrix,
    nothing_lost,
    reweighted,
)

Array = NDArray[np.float64]
Summary = LossyRows | LossyGram | Fitted


@dataclass
class Tree:
    """A summary and X^T X of the arms in it."""

    summary: Summary
    truth: Array
    steps: tuple[str, ...] = ()


def arms(rng: np.random.Generator, d: int) -> Array:
    """Some arms: dense, sparse, of low rank, one-hot, tiny or huge, with unplayed coordinates."""
    n = int(rng.integers(1, 3 * d + 2))
    kind = rng.choice(["dense", "sparse", "rank", "items", "intercept"])
    if kind == "rank":
        some = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    elif kind == "items":
        some = np.eye(d)[np.minimum(rng.zipf(1.5, n) - 1, d - 1)]
    else:
        some = rng.standard_normal((n, d))
    if kind == "sparse":
        some *= rng.random((n, d)) < 0.3
    if kind == "intercept":
        some[:, 0] = 3.0
    some[:, rng.random(d) < 0.2] = 0.0
    return np.asarray(some * 10.0 ** rng.uniform(-2, 2), dtype=np.float64)


def opened(summary: Summary) -> LossyRows | LossyGram:
    """Return rounded rows as rows."""
    if not isinstance(summary, Fitted):
        return summary
    return LossyRows(summary.rows, summary.bound, summary.lost, summary.weight)


def sent(summary: Summary) -> LossyRows | Fitted:
    """Return what can be merged into another: rows."""
    if isinstance(summary, LossyGram):
        return summary.leading(summary.dimension + 1, 1.0).kept(summary.dimension)
    return summary


def grown(rng: np.random.Generator, d: int, depth: int) -> Tree:
    """Return a random tree: arms at the leaves, then merges, cuts, roundings and weights."""
    if depth == 0:
        x = arms(rng, d)
        return Tree(nothing_lost(x), x.T @ x, ("arms",))
    tree = grown(rng, d, depth - 1)
    ridge = float(10.0 ** rng.uniform(-2, 1))
    step = rng.choice(["merge", "gram", "cut", "drop", "round", "scale", "reweigh"])
    summary, truth = tree.summary, tree.truth
    if step == "merge":
        other = grown(rng, d, depth - 1)
        summary = opened(summary).merge(sent(other.summary))
        truth = truth + other.truth
    elif step == "gram":
        summary = empty_matrix(d).merge(sent(summary))
    elif step == "cut":
        size = int(rng.integers(2, d + 2))
        leading = opened(summary).leading(size, ridge, whole=rng.random() < 0.5)
        summary = leading.kept(size - 1)
    elif step == "drop":
        leading = opened(summary).leading(d + 1, ridge, whole=rng.random() < 0.5)
        summary = leading.kept(int(rng.integers(0, len(leading.rows) + 1)))
    elif step == "round":
        rows = opened(sent(summary))
        assert isinstance(rows, LossyRows)
        summary = fitted(rows, upload_charge(1.0, float(rng.uniform(1.0, 1e4)), ridge))
    elif step == "scale":
        share = float(rng.uniform(0.1, 1.0))
        summary, truth = opened(summary).scaled(share), share * truth
    else:
        summary = reweighted(sent(summary), 1.0)
    return Tree(summary, truth, (*tree.steps, str(step)))


def upper(summary: Summary) -> Array:
    """w S^T S + diag(c)."""
    matrix = summary.matrix if isinstance(summary, LossyGram) else summary.rows.T @ summary.rows
    return np.asarray(summary.weight * matrix + np.diag(summary.bound))


def violation(tree: Tree) -> float:
    """Return by how much X^T X exceeds its upper bound, relative to all that is in it."""
    scale = float(np.trace(upper(tree.summary))) + float(np.trace(tree.truth)) + 1e-300
    return float(-np.linalg.eigvalsh(upper(tree.summary) - tree.truth)[0]) / scale


def unplayed_bound(tree: Tree) -> float:
    """Return the largest bound of a coordinate that was never played."""
    never = tree.truth.diagonal() == 0.0
    return float(tree.summary.bound[never].max(initial=0.0))
