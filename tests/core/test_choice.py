"""How to choose is a part: a pure function that says with which probability it chose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import fedbandit as fb
from fedbandit.core.kernels.sparse import sparse_arms
from fedbandit.core.parts.choice import UCB, Choice, Uniform

D, K = 5, 4
CHOICES: dict[str, Choice] = {
    "ucb": UCB,
    "uniform": Uniform(3),
    "thompson": fb.Thompson(0.8, seed=3),
    "mixed": fb.Mixed(0.3),
    "mixed thompson": fb.Mixed(0.3, over=fb.Thompson(0.5), seed=1),
}
every_choice = pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
seeds = st.integers(0, 2**32 - 1)


def policy_of(seed: int) -> tuple[fb.Agent, np.random.Generator]:
    """An agent that has learned something, and chance to go on with."""
    recipe = fb.FSCLB(dimension=D, sketch_size=3, agents=1, radius=0.7)
    agent, server, rng = recipe.agent(0), recipe.server(), np.random.default_rng(seed)
    for x in rng.standard_normal((20, D)):
        upload = agent.observe(x, float(rng.standard_normal()))
        for answer in server.receive(upload) if upload is not None else ():
            agent.receive(answer.message)
    return agent, rng


@every_choice
@given(seed=seeds, number=st.integers(0, 5000))
def test_it_is_a_pure_function_that_changes_nothing(choice: Choice, seed: int, number: int) -> None:
    agent, rng = policy_of(seed)
    arms = rng.standard_normal((K, D))
    before = arms.copy()
    first = choice.choose(agent.policy, arms, 0, number)
    other = choice.choose(agent.policy, arms, 1, 9)
    again = choice.choose(agent.policy, arms, 0, number, other)
    assert first.arm == again.arm
    told, same = (choice.probabilities(agent.policy, one, 0, number) for one in (first, again))
    np.testing.assert_array_equal(told, same)
    np.testing.assert_array_equal(arms, before)
    for each in (first, again):
        np.testing.assert_array_equal(each.arms, arms)
    np.testing.assert_array_equal(first.squared_widths, again.squared_widths)
    assert not np.shares_memory(np.asarray(first.arms), arms)
    assert 0 <= first.arm < K
    assert told.shape == (K,)
    assert told.min() >= 0.0
    assert told.sum() == pytest.approx(1.0, abs=1e-12)
    assert 0.0 < told[first.arm] <= 1.0
    if choice.exact:
        assert first.probability == told[first.arm]
    else:
        assert np.isnan(first.probability)


@every_choice
@given(seed=seeds)
def test_sparse_arms_and_many_decisions_are_chosen_alike(choice: Choice, seed: int) -> None:
    agent, rng = policy_of(seed)
    batch = rng.standard_normal((6, K, D)) * (rng.random((6, K, D)) < 0.5)
    one_by_one = [choice.choose(agent.policy, arms, 0, b).arm for b, arms in enumerate(batch)]
    listed = [sparse_arms(sparse.csr_array(arms)) for arms in batch]
    thin = [choice.choose(agent.policy, arms, 0, b).arm for b, arms in enumerate(listed)]
    assert thin == one_by_one
    assert choice.choose_many(agent.policy, batch, 0, 0).tolist() == one_by_one


@given(seed=seeds)
def test_ucb_is_certain_and_plays_the_best_score(seed: int) -> None:
    agent, rng = policy_of(seed)
    arms, policy = rng.standard_normal((K, D)), agent.policy
    chosen = UCB.choose(policy, arms, 0, 0)
    scores = arms @ policy.theta + policy.radius * np.sqrt(policy.reading.squared_widths(arms))
    assert chosen.arm == int(np.argmax(scores))
    assert chosen.probability == 1.0
    np.testing.assert_allclose(chosen.squared_widths, policy.reading.squared_widths(arms))


def test_the_probability_is_the_frequency() -> None:
    agent, _ = policy_of(0)
    arms = np.eye(K, D)
    chosen = [Uniform(1).choose(agent.policy, arms, 2, number) for number in range(4000)]
    counts = np.bincount([each.arm for each in chosen], minlength=K)
    assert {each.probability for each in chosen} == {1 / K}
    assert np.abs(counts / 4000 - 1 / K).max() < 0.03


@every_choice
def test_numbers_that_are_not_finite_are_refused(choice: Choice) -> None:
    agent, _ = policy_of(0)
    arms = np.full((K, D), np.nan)
    shown = choice.choose(agent.policy, np.eye(K, D), 0, 0)
    with pytest.raises(fb.errors.InvalidArms, match="nan"):
        choice.choose(agent.policy, arms, 0, 1, shown)
    np.testing.assert_array_equal(shown.arms, np.eye(K, D))
    for bad in (arms, sparse_arms(sparse.csr_array(arms))):
        with pytest.raises(fb.errors.InvalidArms, match="nan"):
            choice.choose(agent.policy, bad, 0, 0)
    with pytest.raises(fb.errors.InvalidArms, match="nan"):
        choice.choose_many(agent.policy, arms[None], 0, 0)


def test_chance_takes_arms_of_any_finite_size() -> None:
    agent, _ = policy_of(0)
    for size in (0.0, 1e-300, 1e200, np.finfo(float).max):
        Uniform().choose(agent.policy, np.full((K, D), size), 0, 0)
    for bad in (np.inf, -np.inf, np.nan):
        arms = np.full((K, D), 1e200)
        arms[-1, -1] = bad
        with pytest.raises(fb.errors.InvalidArms):
            Uniform().choose(agent.policy, arms, 0, 0)


def test_a_refused_choice_leaves_the_arms_of_the_last_one() -> None:
    agent = fb.FSCLB(dimension=D, sketch_size=3, agents=1).agent(0)
    agent.choose(sparse.csr_array(np.eye(K, D)))
    with pytest.raises(fb.errors.InvalidArms):
        agent.choose(np.full((K, D), np.nan))
    np.testing.assert_array_equal(agent.state()["shown"], np.eye(K, D))


@pytest.mark.parametrize(
    ("recipe", "probability"),
    [
        (fb.Random(dimension=D, agents=1), 1 / K),
        (fb.FSCLB(dimension=D, sketch_size=2, agents=1), 1.0),
        (fb.LinUCB(dimension=D, choice=fb.Mixed(0.2)), 0.8 + 0.2 / K),
    ],
)
def test_an_agent_tells_the_probability_of_its_last_choice(
    recipe: fb.Recipe, probability: float
) -> None:
    agent = recipe.agent(0)
    assert agent.probability is None
    agent.choose(np.eye(K, D))
    assert agent.probability == probability
    restored = fb.Agent.restore(recipe, agent.state())
    assert restored.probability is None  # how an arm was chosen is not saved
    restored.choose(np.eye(K, D))
    assert restored.probability == probability
