"""The composition root: make the parts of ikeorchd, run them, stop them.

A stop of the daemon, wanted or not, tears nothing down: tunnels, routes and groups stay as they are (D5).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

import structlog

from ikeorch.adapters.kernel.adapter import KernelAdapter
from ikeorch.adapters.probe.client import ProbeClient
from ikeorch.adapters.vici.adapter import CharonAdapter, CharonEvent
from ikeorch.adapters.vici.log_watch import LogWatch
from ikeorch.config.loader import LoadedConfig, load_config, read_config
from ikeorch.config.place import pack_sources, unpack_sources
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.ids import TunnelId
from ikeorch.core.revision import Outcome, Revision, Terms
from ikeorch.daemon.api import Api
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.daemon.fabric import Fabric
from ikeorch.daemon.history import DAEMON, History
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.daemon.single import only_one
from ikeorch.errors import ConfigError, IkeorchError
from ikeorch.store.database import Store
from ikeorch.store.revisions import Revisions

_log = structlog.get_logger("ikeorch.daemon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the daemon finds and leaves things.

    Attributes:
        config: the configuration file.
        state: folder of the database and of the guard's saved rules.
        socket: the API's socket.
        probe_socket: the prober's.
    """

    config: Path
    state: Path
    socket: Path
    probe_socket: Path


def run_daemon(settings: Settings) -> None:
    """Run ikeorchd until SIGTERM or SIGINT.

    Only one may serve its socket, give numbers from its database or drive its charon.

    Raises:
        IkeorchError: it cannot start: configuration refused, no permission, or another one runs.
    """
    loaded, problem = _first_config(settings)
    with only_one("ikeorchd", settings.socket, settings.state, loaded.spec.vici_socket):
        asyncio.run(_run(settings, loaded, problem))


def _first_config(settings: Settings) -> tuple[LoadedConfig, Condition | None]:
    """What was in force last, and what is to be said where the file says something else; without a revision the file.

    A file that was edited and never applied must not come into force because the daemon died.

    Raises:
        ConfigError: the file is not valid and there is no revision.
    """
    last = _last_revision(settings.state / "ikeorch.db")
    try:
        loaded = read_config(settings.config)
    except ConfigError as error:
        if last is None:
            raise
        return _load(last), Condition(code=Code.CONFIG_INVALID, subject="", message=str(error))
    if last is None or pack_sources(loaded.sources) == last.text:
        return loaded, None
    message = f"{settings.config} is not what was applied last; revision {last.number} is in force"
    try:
        return _load(last), Condition(code=Code.FILE_NOT_APPLIED, subject="", message=message)
    except ConfigError as error:
        # of an older version, whose words are no longer taken
        _log.warning("revision_unusable", revision=last.number, reason=str(error))
        return loaded, None


def _last_revision(database: Path) -> Revision | None:
    if not database.exists():
        return None
    with contextlib.closing(Store.open(database)) as store:
        last = Revisions(store).last()
    # one that was just undone, and a crash before that was written down: the file is what came back
    return None if last is not None and last.outcome is Outcome.ROLLED_BACK else last


def _load(revision: Revision) -> LoadedConfig:
    main, *included = unpack_sources(revision.text)
    return load_config(main.text, main.name, included)


async def _run(settings: Settings, loaded: LoadedConfig, problem: Condition | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store = Store.open(settings.state / "ikeorch.db")
    kernel = KernelAdapter(guard_file=settings.state / "guard.nft")
    charon = CharonAdapter(loaded.spec.vici_socket)
    charon_log = LogWatch(loaded.spec.vici_socket)
    prober = ProbeClient(settings.probe_socket)
    run = settings.socket.parent
    fabric = Fabric(run / "exabgp.sock", run / "exabgp.conf")
    reconciler = Reconciler(loaded.spec, kernel=kernel, charon=charon, prober=prober, fabric=fabric, store=store)
    config = ConfigFile(settings.config, lambda loaded: reconciler.set_spec(loaded.spec, "configuration"), loaded)
    history = History(store, config, reconciler)
    api = Api(reconciler, config, history)
    if problem is not None:
        reconciler.set_condition(problem.code, problem)
    else:
        history.record(loaded, uid=DAEMON, what="start", terms=Terms(trial=False))
    _log.info("daemon_started", gateway=loaded.spec.name, peers=len(loaded.spec.peers), config=str(settings.config))
    tasks: list[asyncio.Task[None]] = []
    try:
        await api.start(settings.socket)
        tasks = [
            asyncio.create_task(reconciler.run(), name="reconciler"),
            asyncio.create_task(prober.run(reconciler.health_changed), name="prober"),
            asyncio.create_task(history.run(), name="history"),
            asyncio.create_task(fabric.run(reconciler.wake), name="fabric"),
            asyncio.create_task(charon.events(lambda event: reconciler.wake(_reason(event))), name="charon-events"),
            asyncio.create_task(charon_log.refusals(reconciler.refused), name="charon-log"),
            asyncio.create_task(kernel.changes(lambda: reconciler.wake("kernel changed")), name="kernel-changes"),
        ]
        loop.add_signal_handler(signal.SIGHUP, lambda: tasks.append(loop.create_task(_reload(api))))
        stopped = asyncio.create_task(stop.wait(), name="stop")
        done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task.exception() is not None:
                _log.error("daemon_failed", task=task.get_name(), exc_info=task.exception())
                raise IkeorchError("the daemon failed; its log says where", hint="report it; tunnels go on meanwhile")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await api.stop()
        await charon.close()
        charon_log.close()
        await kernel.close()
        store.close()
        settings.socket.unlink(missing_ok=True)
        _log.info("daemon_stopped", gateway=loaded.spec.name)


def _reason(event: CharonEvent) -> str:
    tunnel = TunnelId.from_connection(event.connection) if event.connection else None
    return f"{event.kind} {tunnel}" if tunnel else f"charon {event.kind}"


async def _reload(api: Api) -> None:
    try:
        await api.reload("SIGHUP", uid=DAEMON)
    except IkeorchError as error:
        _log.error("config_refused", reason=str(error))
