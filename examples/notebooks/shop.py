# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # From a shop's log to live decisions
#
# An outdoor shop shows each visitor one of five products. Its own rule shows the tent to half of them and anything to the other
# half, and logs what was shown, with which probability, and whether it was clicked. This notebook takes that log from *what would we
# gain?* through shadow mode to live decisions and an explanation of one.
#
# `examples/shop_log.py` makes the log. What visitors like is known there, so that every estimate can be compared with the truth at the
# end. Run it yourself: `make notebooks`, or open this file with jupytext. Everything happens on this machine.

# %%
import os
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd

import fedbandit as fb

here = [Path.cwd(), *Path.cwd().parents]
sys.path.insert(0, str(next(each for each in here if (each / "examples").is_dir()) / "examples"))
import shop_log
from shop_log import PRODUCTS

SHORT = "FEDBANDIT_SHORT" in os.environ  # a short run shows the same with wider intervals
VISITS, LIVE = (4000, 1500) if SHORT else (16_000, 6000)
place = Path(mkdtemp(prefix="shop-"))

# %% [markdown]
# ## The log
# One JSON object a line: decisions, and rewards under the same id.

# %%
shop_log.write_log(place / "log", many=VISITS, seed=0)
frame = pd.read_json(next((place / "log").glob("*.ndjson")), lines=True)
decisions = frame[frame["kind"] == "decision"]
rewards = frame[frame["kind"] == "reward"]
seen = decisions.merge(rewards[["id", "reward"]], on="id", suffixes=("", "_given"))
seen["product"] = [PRODUCTS[int(k)]["id"] for k in seen["chosen"]]
seen.groupby("product")["reward_given"].agg(["count", "mean"]).round(3)

# %% [markdown]
# On the whole the tent does well. But who clicks on what depends on season, device and whether a visitor has been here before: that is what
# a contextual bandit learns.
#
# ## What would it gain?
# Features have names; the range of the price is declared, since a number up to 1800 would drown the others. `fb.Mixed(0.1)` leaves a tenth of
# the decisions to chance, so that its own logs can be evaluated later. Two radii are tried: how much uncertainty is worth.

# %%
features = fb.Features({"price": "0..2000"}, id=True)
recipe = fb.FSCLB.lean(dimension=128, agents=3, features=features, choice=fb.Mixed(0.1))
found = fb.evaluate(place / "log", recipe, radius=[0.1, 1.0])
print(found.sentence)
print("left out of the log:", found.skipped)

# %%
pd.DataFrame(
    [
        {
            "policy": each.name,
            "by": each.method,
            "clicks a visit": each.estimate.value,
            "over now": each.estimate.gain,
            "from": each.estimate.gain_low,
            "to": each.estimate.gain_high,
            "effective rows": round(each.estimate.effective),
            "verdict": each.estimate.verdict,
        }
        for each in found.outcomes
    ]
).round(3)

# %% [markdown]
# *replay* is the recipe learning by itself from nothing, on the visits where it would have shown what was shown. *ips*, *snips* and *dr* judge it on
# the second half of the log after it has learned from the first. The interval of "over now" is what to look at: if it begins above 0, it
# would have gained.

# %%
from IPython.display import Image

from fedbandit.lab.figures.evaluation import draw_evaluation

picture = draw_evaluation(found, place / "figures", formats=["png"])[0]
Image(filename=str(picture))

# %% [markdown]
# ## Warm start
# The log becomes part of the model, once: a second time changes nothing. On a command line this is
# `fedbandit model warm shop LOG`. The coordinator here runs inside this notebook; a real one is `fedbandit serve`.

# %%
from fedbandit.logs import read
from fedbandit.offline import always
from fedbandit.offline.policies import arms_of
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.opening import open_store
from fedbandit.service.warming import warm
from fedbandit.testing import coordinator

store = open_store(f"sqlite:///{place / 'store.db'}", create=True)
store.create(*new_model("shop", recipe))
first = warm(store, "shop", read(place / "log"), arms=arms_of(recipe))
second = warm(store, "shop", read(place / "log"), arms=arms_of(recipe))
print(f"{first.new} observations merged; the second time {second.new}")
assert first.new > 0 == second.new

# %% [markdown]
# ## Shadow mode
# Nothing changes for visitors: the shop's rule decides, the agent learns from what came of it and says what it would have done. The rule
# leaves something to chance, and says with which probability; so what the agent would have earned can be told without believing
# its model.

# %%
serving = coordinator(recipe, model="shop", store=store)
shop = serving.__enter__()
agent = shop.connect("till-1", state_dir=place / "state", log=place / "decisions")
rng = np.random.default_rng(7)
actions = list(PRODUCTS)

for visit in shop_log.visits(rng, LIVE):
    decision = agent.decide(
        context=visit.context,
        actions=actions,
        baseline=visit.shown,
        baseline_probability=visit.probability,
    )
    agent.reward(decision.id, shop_log.clicked(rng, visit.context, decision.index))

shadow = agent.status().shadow
print(shadow.sentence)

# %% [markdown]
# `status().shadow` has the numbers; a sidecar (`fedbandit edge --shadow`) shows them at `/healthz` and `/metrics`. The interval of the gain is
# what decides: once it begins above 0, switching is safe.
#
# ## Live
# The same call without a baseline.

# %%
earned = []
for visit in shop_log.visits(rng, LIVE):
    decision = agent.decide(context=visit.context, actions=actions)
    reward = shop_log.clicked(rng, visit.context, decision.index)
    agent.reward(decision.id, reward)
    earned.append(shop_log.click_probability(visit.context, decision.index))

rule = np.mean([shop_log.click_probability(v.context, v.shown) for v in shop_log.visits(rng, LIVE)])
best = np.mean(
    [
        max(shop_log.click_probability(v.context, k) for k in range(len(PRODUCTS)))
        for v in shop_log.visits(rng, LIVE)
    ]
)
live = float(np.mean(earned))
print(f"clicks a visit, by what is really so: rule {rule:.3f}, live {live:.3f}, best {best:.3f}")
print(f"shadow mode had said: {shadow.baseline + shadow.gain:.3f}")
assert live > rule

# %% [markdown]
# ## Why this one?
# A decision can be explained: what each feature adds to the expected reward, what is added for what is not known yet, and what the
# next best one lacks.

# %%
visitor = {"device": "desktop", "season": "summer", "returning": False}
print(agent.explain(agent.decide(context=visitor, actions=actions)))

# %% [markdown]
# And its own log, of shadow mode and of a day of live decisions, can be evaluated in turn: every decision in it has its probability.

# %%
agent.close()
mine = fb.evaluate(place / "decisions", {"the tent, always": always(0)})
print(mine.sentence)
_ = serving.__exit__(None, None, None)
