"""Nothing is compiled inside a transaction: the first upload finds everything ready."""

import json
import subprocess
import sys

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from tests.service.made_uploads import upload_for

PROGRAM = """
import json, sys
import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.compiler import COMPILES, Kernel
from fedbandit.service.validation.upload import check_sync
from fedbandit.service.merging.merge import merge
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.models.model import Served, new_model
from fedbandit.service.merging.precompile import precompile

def compiled():
    ours = [vars(each) for name, each in sys.modules.items() if name.startswith("fedbandit.")]
    kernels = {each for names in ours for each in names.values() if isinstance(each, Kernel)}
    ready = {each.__name__: each.compiled for each in kernels if "compiled" in vars(each)}
    return {name: len(each.signatures) for name, each in ready.items()}

kind, params, uploads = json.load(sys.stdin)
recipe = fb.RECIPES[kind](**params)
assert not compiled()
precompile()
before = compiled()
server = recipe.server()
for number, upload in enumerate(uploads, start=1):
    upload = wire.decode(bytes.fromhex(upload))
    sent = wire.encode_sync(wire.Sync(wire.fingerprint(recipe), bytes(16), number, upload))
    sync = wire.decode_sync(sent)
    check_sync(Served(new_model("news", recipe)[0], recipe), sync)
    merge(recipe, server, [sync.upload] * number)
    wire.encode(server.download())
    server = server_at(recipe, wire.encode(server.whole()))
print(sorted(set(compiled().items()) - set(before.items())), bool(before) == COMPILES)
"""


def lean_upload(recipe: fb.Recipe, seed: int) -> fb.Upload:
    """Return what an agent of FSCLB.lean sends of a few observations."""
    agent, rng = recipe.agent(0), np.random.default_rng(seed)
    for arm in rng.standard_normal((4, recipe.dimension)) / recipe.dimension:
        assert agent.observe(arm, float(rng.uniform(-1, 1))) is None
    return agent.collect()


@pytest.mark.parametrize(
    ("kind", "params"),
    [("FSCLB", {"sketch_size": 5}), ("FedLinUCB", {}), ("FSCLB.lean", {})],
)
def test_the_first_merge_finds_everything_compiled(kind: str, params: dict[str, int]) -> None:
    asked = {"dimension": 9, "agents": 1, **params}
    recipe = fb.RECIPES[kind](**asked)
    make = lean_upload if kind == "FSCLB.lean" else upload_for
    uploads = [wire.encode(make(recipe, seed)).hex() for seed in range(3)]
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([kind, asked, uploads]),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert said.stdout == "[] True\n"
