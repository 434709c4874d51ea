"""``fedbandit model warm``: past observations into a model."""

import sys
from argparse import Namespace
from dataclasses import asdict

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_audit, add_logs, add_store, audited, opened_store
from fedbandit.cli.reporting import add_json, report


def _define(add: Add) -> None:
    add("name", metavar="NAME", help="name of the model")
    add_logs(add)
    add_store(add)
    add_audit(add)
    add_json(add)


def _warm(arguments: Namespace) -> None:
    from fedbandit.logs import read
    from fedbandit.offline.policies import arms_of
    from fedbandit.service.models.model import recipe_of
    from fedbandit.service.warming import warm

    logs = read(arguments.logs)
    with opened_store(arguments) as store:
        recipe = recipe_of(store.model(arguments.name))
        done = warm(store, arguments.name, logs, arms=arms_of(recipe))
    audited(
        arguments, "model warmed", model=arguments.name, agent=done.agent, observations=done.new
    )
    told = f"{arguments.name}: {done.new:,} observations merged as {done.agent}"
    before = f"; {done.before:,} were there already" if done.before else ""
    found = {**asdict(done), "model": arguments.name, "left_out": dict(logs.tally.skipped)}
    report(arguments, lambda: found, lambda: print(told + before))
    for line in logs.tally.sentences():
        print(line, file=sys.stderr)


WARM = Command("warm", "Merge the observations of logs into a model, once.", _define, _warm)
