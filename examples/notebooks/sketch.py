# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The sketch, in pictures
#
# A learner remembers where it has looked: the matrix X^T X, the sum of x x^T over the arms that it played. In d dimensions that is d x d
# numbers. A sketch keeps l - 1 rows in its place. This page shows what is kept, what is lost, and why losing it is safe.

# %%
import matplotlib.pyplot as plt
import numpy as np

import fedbandit as fb

# %% [markdown]
# ## What is remembered, as an ellipse
#
# In two dimensions X^T X can be drawn: the ellipse of all directions u scaled by |X u|, how much was seen along u. A sketch of size 2 keeps
# one row, that is, one direction. What it took off to make room, the *shed*, is known. Adding it to every direction gives an ellipse that is
# never smaller than the true one.

# %%
rng = np.random.default_rng(0)
seen = rng.standard_normal((60, 2)) @ np.array([[1.0, 0.7], [0.0, 0.35]])

sketch = fb.Sketch(rows=np.empty((0, 2)), shed=0.0, size=2)
for x in seen:
    sketch = sketch.merge(fb.Sketch(rows=x[None], shed=0.0, size=2))
print(f"{len(sketch.rows)} row of 2 numbers for {len(seen)} arms, shed {sketch.shed:.2f}")


def outline(matrix):
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    reach = np.sqrt(np.einsum("ik,ij,jk->k", directions, matrix, directions))
    return directions * reach


exact = seen.T @ seen
kept = sketch.rows.T @ sketch.rows
figure, axes = plt.subplots(figsize=(5, 5))
axes.plot(*outline(exact), color="black", label="X$^T$X, all that was seen")
axes.plot(*outline(kept), color="#D55E00", label="the sketch")
axes.plot(
    *outline(kept + sketch.shed * np.eye(2)),
    "--",
    color="#0072B2",
    label="the sketch + what it shed",
)
axes.set_aspect("equal")
axes.legend(loc="lower right")
plt.show()

# %% [markdown]
# The dashed ellipse contains the black one. So a learner that works with it never believes that it has seen *less* than it has. It may
# believe that it has seen more, by at most the shed; that is the price, and it is known.

# %%
below = np.linalg.eigvalsh(kept + sketch.shed * np.eye(2) - exact).min()
above = np.linalg.eigvalsh(exact - kept).min()
print(f"smallest eigenvalues of the two differences: {below:.3f} and {above:.3f}")
assert below >= -1e-9
assert above >= -1e-9

# %% [markdown]
# ## What is lost depends on the spectrum
#
# 50 dimensions. Where arms lie in few directions a small sketch loses nothing; where they fill all of them, everything past its l - 1
# directions is shed. The bars are the eigenvalues of X^T X, the dots those of the sketch.


# %%
def sketched(arms, size):
    """Merge arms into a sketch, six at a time."""
    d = arms.shape[1]
    held = fb.Sketch(rows=np.empty((0, d)), shed=0.0, size=size)
    for start in range(0, len(arms), 6):
        held = held.merge(fb.Sketch(rows=arms[start : start + 6], shed=0.0, size=size))
    return held


worlds = {
    "8 directions": np.r_[np.ones(8), np.zeros(42)],
    "falling": 1.0 / np.arange(1, 51),
    "all alike": np.ones(50),
}
figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
for axes, (name, weights) in zip(panels, worlds.items(), strict=True):
    arms = rng.standard_normal((2_000, 50)) * weights
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    held = sketched(arms, size=12)
    index = np.arange(1, 51)
    axes.bar(index, np.linalg.eigvalsh(arms.T @ arms)[::-1], color="#bbbbbb", label="X$^T$X")
    axes.plot(
        index[: len(held.rows)], np.sort(held.squares)[::-1], "o", color="#D55E00", label="sketch"
    )
    axes.set_title(f"{name}: shed {held.shed:,.0f} of {len(arms):,}")
    axes.set_xlabel("eigenvalue, largest first")
panels[0].legend()
plt.show()

# %% [markdown]
# ## When to talk
#
# An agent uploads when the determinant of its matrix has grown by a factor 1 + alpha: when the volume of the ellipse has. At first every
# arm is news and it talks often; later one more arm changes little. The singular values of the sketch give the determinant at once.

# %%
world = fb.worlds.Synthetic(dimension=50, arms=10, agents=10, noise=0.1, seed=0)
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for recipe, colour in (
    (fb.FedLinUCB(dimension=50, agents=10, radius=0.3), "#0072B2"),
    (fb.FSCLB(dimension=50, sketch_size=20, agents=10, radius=0.3), "#D55E00"),
    (fb.FSCLB.lean(dimension=50, agents=10, radius=0.3), "#332288"),
):
    trace = fb.simulate(recipe, world, rounds=5_000)
    axes.plot(trace.bytes / 1e6, trace.regret, color=colour, label=recipe.label)
    print(
        f"{recipe.label:10}  {trace.uploads[-1]:4} uploads  {trace.bytes[-1] / 1e6:6.2f} MB  regret {trace.regret[-1]:6.1f}"
    )
axes.set_xscale("log")
axes.set_xlabel("bytes sent so far, MB")
axes.set_ylabel("regret so far")
axes.legend()
plt.show()

# %% [markdown]
# Each line runs from the first upload to round 5,000: how much was sent, and what not knowing has cost by then. How the last one sends so
# little is told in docs/beyond.md.
