"""Everything that the quickstart writes: a store, tokens, states and logs in one directory."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedbandit.cli.quickstart.shop import DIMENSION
from fedbandit.errors import OutputError

MODEL = "drinks"
ADMIN = "admin"


@dataclass(frozen=True)
class Places:
    """A directory, and where what is in it."""

    root: Path

    @property
    def store(self) -> str:
        """URL of the store."""
        return f"sqlite:///{self.root / 'fedbandit.db'}"

    def token(self, agent: str) -> Path:
        """File with the token of an agent, or the admin's."""
        return self.root / f"{agent}.token"

    def state(self, agent: str) -> Path:
        """State directory of an agent."""
        return self.root / "states" / agent

    def log(self, process: str) -> Path:
        """File with what a process says."""
        return self.root / f"{process}.log"

    def prepare(self, agents: Iterable[str]) -> None:
        """Make the model and the tokens that are not there yet, for their owner alone."""
        from fedbandit.core.algorithms.fsclb import FSCLB
        from fedbandit.features import Features
        from fedbandit.service.models.model import new_model
        from fedbandit.service.storage.opening import open_store
        from fedbandit.service.tokens import digest_of, new_token

        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
            message = f"quickstart: {str(self.root)!r} cannot be written ({why})."
            raise OutputError(f"{message} Choose another --dir.") from error
        store = open_store(self.store, create=True)
        try:
            if all(model.name != MODEL for model in store.models()):
                named = Features(id=True)
                recipe = FSCLB.lean(dimension=DIMENSION, agents=10, features=named)
                store.create(*new_model(MODEL, recipe))
            known = {token.digest for token in store.tokens()}
            for agent in (ADMIN, *agents):
                file = self.token(agent)
                if file.exists() and digest_of(file.read_text().strip()) in known:
                    continue
                whom = (None, None) if agent == ADMIN else (MODEL, agent)
                secret, token = new_token(model=whom[0], agent=whom[1])
                store.add_token(token)
                _write_privately(file, secret)
        finally:
            store.close()


def _write_privately(file: Path, secret: str) -> None:
    file.unlink(missing_ok=True)
    with open(file, "x", opener=lambda path, how: os.open(path, how, 0o600)) as sink:
        sink.write(f"{secret}\n")
