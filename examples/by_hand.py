"""Three agents and a server without the simulator, as a deployment would join them."""

import numpy as np

import fedbandit as fb


def main() -> None:
    recipe = fb.FSCLB(dimension=8, sketch_size=4, agents=3, radius=0.3)
    agents, server = recipe.fleet(), recipe.server()
    rng = np.random.default_rng(0)
    taste = rng.standard_normal(8)
    for t in range(1000):
        agent, offers = agents[t % 3], rng.standard_normal((5, 8))
        chosen = agent.choose(offers)
        upload = agent.observe(chosen, float(offers[chosen] @ taste) + rng.standard_normal())
        if upload is not None:
            for answer in server.receive(upload):
                agents[answer.agent].receive(answer.message)
    print(f"{server.count} observations merged from {server.version} uploads")
    print("distance to the truth:", round(float(np.linalg.norm(agents[0].theta - taste)), 3))


if __name__ == "__main__":
    main()
