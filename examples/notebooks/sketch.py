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
# Arms of six numbers, and a sketch of size 4: three rows in place of a 6 x 6 matrix. Looked at along the first two features, X^T X is an
# ellipse that reaches far where much was seen. The sketch lies inside it. What it took off all its directions to make room for new rows,
# the *shed*, is known, and adding it back to every direction gives an ellipse that contains the true one.

# %%
rng = np.random.default_rng(0)
seen = (
    rng.standard_normal((300, 6)) @ (rng.standard_normal((6, 6)) * [2.0, 1.2, 0.7, 0.5, 0.4, 0.3]).T
)

sketch = fb.Sketch(rows=np.empty((0, 6)), shed=0.0, size=4)
for x in seen:
    sketch = sketch.merge(fb.Sketch(rows=x[None], shed=0.0, size=4))
print(f"{len(sketch.rows)} rows of 6 numbers for {len(seen)} arms, shed {sketch.shed:.0f}")


def ellipse(matrix):
    """Return the outline of the first two features' block: its square root times the circle."""
    values, vectors = np.linalg.eigh(matrix[:2, :2])
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    return vectors * np.sqrt(values.clip(0.0)) @ np.stack([np.cos(angles), np.sin(angles)])


exact = seen.T @ seen
kept = sketch.rows.T @ sketch.rows
raised = kept + sketch.shed * np.eye(6)
figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
axes.plot(*ellipse(exact), color="black", label="X$^T$X, all that was seen")
axes.plot(*ellipse(kept), color="#D55E00", label="the sketch")
axes.plot(*ellipse(raised), "--", color="#0072B2", label="the sketch + what it shed")
axes.set_aspect("equal")
figure.legend(loc="outside lower center", ncols=1)
plt.show()

# %% [markdown]
# So a learner that works with the dashed ellipse may believe that it has seen more than it has, by at most the shed, but never that it has
# seen less. Both inequalities hold in all six dimensions, for every direction:

# %%
print("smallest eigenvalues of the two differences:")
for what, difference in {"raised - exact": raised - exact, "exact - kept": exact - kept}.items():
    smallest = np.linalg.eigvalsh(difference).min()
    print(f"  {what}: {smallest:.3f}")
    assert smallest >= -1e-6

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
