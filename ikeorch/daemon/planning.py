"""``plan``: made by the daemon from the world as it is, or without it from one that was saved."""

from __future__ import annotations

import time
from dataclasses import replace

from ikeorch.config.loader import LoadedConfig, load_config
from ikeorch.config.place import Sources, pack_sources
from ikeorch.config.snapshot import Snapshot, dump_snapshot
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.planner import plan_changes
from ikeorch.core.risk import find_risks
from ikeorch.core.units import Seconds
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.daemon.views import Json, plan_view
from ikeorch.errors import UsageError


async def plan_online(
    reconciler: Reconciler,
    loaded: LoadedConfig,
    in_force: LoadedConfig | None,
    *,
    explain: bool = False,
    save: bool = False,
) -> Json:
    """The plan of a configuration in the world as it is now.

    Args:
        reconciler: the loop.
        loaded: the files as they are.
        in_force: the configuration in force.
        explain: with the lines that each action stands for.
        save: with a snapshot from which the same plan can be made again.
    """
    at = Seconds(time.time())
    world, unseen = await reconciler.look(loaded.spec, every_device=save)
    planned = plan_changes(loaded.spec, world)
    view = plan_view(
        planned,
        unseen,
        find_risks(reconciler.spec, loaded.spec, planned.actions),
        text=pack_sources(loaded.sources),
        in_force=loaded.spec == reconciler.spec,
        at=at,
        explain=explain,
    )
    if save:
        view["snapshot"] = dump_snapshot(
            Snapshot(
                taken=at,
                sources=loaded.sources,
                in_force=in_force.sources if in_force else (),
                files=loaded.spec.credentials,
                world=world,
                unseen=unseen,
            )
        )
    return view


def plan_offline(snapshot: Snapshot, loaded: LoadedConfig | None = None, *, explain: bool = False) -> Json:
    """The plan of a configuration in a world that was saved.

    Args:
        snapshot: what was seen then.
        loaded: the configuration; None for the files as they were then.
        explain: with the lines that each action stands for.

    Raises:
        ConfigError: the saved files are not valid.
        UsageError: the snapshot holds what no gateway has.
    """
    loaded = loaded or _load(snapshot.sources)
    world, unseen = snapshot.world, list(snapshot.unseen)
    if loaded.spec.credentials != snapshot.files:
        unseen = [condition for condition in unseen if condition.code is not Code.CREDENTIALS_UNREADABLE]
        message = f"the snapshot does not hold {loaded.spec.credentials.certificate}"
        unseen.append(Condition(code=Code.CREDENTIALS_UNREADABLE, subject="", message=message))
        world = replace(world, credentials=None)
    try:
        planned = plan_changes(loaded.spec, world)
        before = _load(snapshot.in_force).spec if snapshot.in_force else None
        return plan_view(
            planned,
            unseen,
            () if before is None else find_risks(before, loaded.spec, planned.actions),
            text=pack_sources(loaded.sources),
            in_force=loaded.spec == before,
            at=snapshot.taken,
            explain=explain,
        )
    except ValueError as error:
        raise UsageError(f"no plan can be made from this snapshot: {error}") from None


def _load(sources: Sources) -> LoadedConfig:
    """Files that were saved."""
    if not sources:
        raise UsageError("the snapshot holds no configuration", hint="name one with --config FILE")
    main, *included = sources
    return load_config(main.text, main.name, included)
