"""Nothing is compiled inside a transaction: the first upload finds everything ready."""

import subprocess
import sys

PROGRAM = """
import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels import linalg
from fedbandit.core.kernels import frequent_directions as shrink
from fedbandit.core.kernels.compiler import COMPILES, Kernel
from fedbandit.service.merging import evidence
from fedbandit.service.merging.validation import check_sync
from fedbandit.service.merging.merge import merge
from fedbandit.service.models.model import Served, new_model, server_at
from fedbandit.service.merging.warm_up import merge_once
from tests.service.made_uploads import sync_for

def compiled():
    kernels = {**vars(linalg), **vars(shrink), **vars(evidence)}.items()
    kernels = {name: each for name, each in kernels if isinstance(each, Kernel)}
    ready = {name: each.compiled for name, each in kernels.items() if "compiled" in vars(each)}
    return {name: len(each.signatures) for name, each in ready.items()}

assert not compiled()
merge_once()
before = compiled()
for recipe in (fb.FSCLB(dimension=9, sketch_size=5, agents=1), fb.FedLinUCB(dimension=9, agents=1)):
    server = recipe.server()
    for seed in range(3):
        sync = wire.decode_sync(wire.encode_sync(sync_for(recipe, seed)))
        check_sync(Served(new_model("news", recipe)[0], recipe), sync)
        merge(recipe, server, [sync.upload] * (1 + seed))
        server = server_at(recipe, wire.encode(server.download()))
print(compiled() == before and ("evidence" in before) == COMPILES)
"""


def test_the_first_merge_finds_everything_compiled() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300
    )
    assert said.stdout == "True\n"
