# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A fleet on a laptop
#
# A coordinator and three shops that learn together, over real HTTP on this machine. Each shop decides by itself; what travels is a sketch.

# %%
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np

import fedbandit as fb
from fedbandit.service.private import private_coordinator

here = Path(mkdtemp(prefix="fleet-"))
recipe = fb.FSCLB.lean(dimension=12, agents=3)

# %% [markdown]
# ## Customers
#
# Five drinks are offered, each with twelve features; the customer likes one according to a taste that all shops share and none knows.

# %%
rng = np.random.default_rng(1)
taste = rng.standard_normal(12)
taste /= np.linalg.norm(taste)


def offers():
    drinks = rng.standard_normal((5, 12))
    return drinks / np.linalg.norm(drinks, axis=1, keepdims=True)


def paid(drink):
    return float(drink @ taste + 0.1 * rng.standard_normal())


# %% [markdown]
# ## Three shops, one after the other serving a customer
#
# `decide` never touches the network. `reward` may come any time later. A thread in the background sends an upload when the shop has learned
# enough.

# %%
shops = ("north", "south", "west")
lost = []
with private_coordinator(f"sqlite:///{here / 'fleet.db'}", model="drinks", recipe=recipe) as url:
    agents = {
        shop: fb.connect(url, model="drinks", agent=shop, state_dir=here / shop) for shop in shops
    }
    for turn in range(900):
        agent = agents[shops[turn % 3]]
        arms = offers()
        decision = agent.decide(arms)
        agent.reward(decision.id, paid(arms[decision.index]))
        lost.append(float((arms @ taste).max() - arms[decision.index] @ taste))
        if turn % 100 == 99:
            agent.sync()
    for shop, agent in agents.items():
        agent.sync(everything=True)
        status = agent.status()
        print(
            f"{shop:6} version {status.version:3}  {status.uploads:3} uploads, {status.bytes_up:6,} bytes up"
        )

    # a shop that opens today knows at once what the others have learned
    with fb.connect(url, model="drinks", agent="east", state_dir=here / "east") as newcomer:
        arms = offers()
        decision = newcomer.decide(arms)
        print(
            "the new shop picks drink",
            decision.index,
            "and the best is",
            int((arms @ taste).argmax()),
        )
    for agent in agents.values():
        agent.close()

# %%
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(np.cumsum(lost), color="#332288")
axes.set_xlabel("customers served, by all shops")
axes.set_ylabel("lost for not knowing, so far")
plt.show()
assert np.mean(lost[-300:]) < 0.5 * np.mean(lost[:100])

# %% [markdown]
# ## A shop loses power
#
# What `reward` has taken is on the disk. A program that is killed goes on where it was; with an empty coordinator, it would even bring it up
# to date. docs/agents.md says what survives what.

# %%
with private_coordinator(f"sqlite:///{here / 'fleet.db'}", model="drinks", recipe=recipe) as url:
    again = fb.connect(url, model="drinks", agent="north", state_dir=here / "north")
    print(again.status())
    again.close()
