"""A gateway with 1,000 tunnels for ``cli``: ikeorchd's loop and API on the fake charon and kernel of the test suite.

``python -m lab.bench.cli_gateway FOLDER`` serves FOLDER/api.sock, FOLDER/charon.vici and FOLDER/frozen.vici, says
``ready``, and ends when its stdin does. The frozen charon composed its answer before: it costs swanctl nothing to wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import structlog

from ikeorch.adapters.vici.adapter import CharonAdapter
from ikeorch.config.loader import read_config
from ikeorch.daemon.api import Api
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.daemon.history import History
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.store.database import Store
from pki.issue import GatewayCredentials, create_ca, issue_gateway, new_key, new_serial
from pki.profiles import CaProfile, GatewayProfile
from pki.store import save_gateway
from tests.fakes.fake_charon import FakeCharon
from tests.fakes.fake_kernel import FakeKernel
from tests.integration.world import AnySetting, FakeFabric, FakeProber

PEERS, TUNNELS = 4, 250
PASSES = 300
"""More than enough: 16 are begun at a time."""


def configuration(folder: Path) -> str:
    """Four bundles of 250 tunnels."""
    lines = [
        "schema_version: 1",
        "gateway:",
        "  name: gw-a",
        "  site: dc-a",
        "  identity: gw-a.dc.example",
        "  asn: 65010",
        "  router_id: 10.0.255.1",
        "  uplinks:",
        "    - {name: isp1, interface: eth1, addresses: [192.0.2.1/24], gateway: 192.0.2.254, capacity: 100G}",
        f"  credentials: {{certificate: {folder}/gw-a.pem, key: {folder}/gw-a.key, ca: {folder}/ca.pem}}",
        "peers:",
    ]
    for peer in range(PEERS):
        lines += [
            f"  - name: gw-p{peer}",
            f"    site: dc-{peer}",
            f"    identity: gw-p{peer}.dc.example",
            "    asn: 65020",
            f"    uplinks: [{{name: isp1, addresses: [198.51.100.{peer + 1}]}}]",
            f"    inner: [10.255.{2 * peer}.0/23]",
            f"    prefixes: [10.{peer + 2}.0.0/16]",
            f"    tunnels: {{count: {TUNNELS}, capacity: 1G}}",
        ]
    return "\n".join(lines) + "\n"


def save_credentials(folder: Path) -> None:
    """A CA and the gateway's certificate."""
    now = datetime.now(UTC)
    signer = create_ca(CaProfile(name="bench"), new_key(), serial=new_serial(), now=now)
    key = new_key()
    profile = GatewayProfile(identity="gw-a.dc.example")
    certificate = issue_gateway(profile, key.public_key(), signer, serial=new_serial(), now=now)
    save_gateway(folder, "gw-a", GatewayCredentials(certificate=certificate, key=key), signer.certificate)


async def serve(folder: Path) -> None:
    """Bring all tunnels up, then serve until stdin ends."""
    save_credentials(folder)
    config = folder / "ikeorch.yaml"
    config.write_text(configuration(folder))
    loaded = read_config(config)
    kernel, prober, fabric = FakeKernel("eth1"), FakeProber(answering=True), FakeFabric()
    kernel.settings = AnySetting()
    async with FakeCharon(folder / "charon.vici") as charon:
        charon.peer_answers = True
        adapter = CharonAdapter(charon.path)
        with contextlib.closing(Store.open(folder / "ikeorch.db")) as store:
            loop = Reconciler(loaded.spec, kernel=kernel, charon=adapter, prober=prober, fabric=fabric, store=store)
            file = ConfigFile(config, lambda new: loop.set_spec(new.spec, "edited"), loaded)
            api = Api(loop, file, History(store, file, loop))
            await api.start(folder / "api.sock")
            for _ in range(PASSES):
                result = await loop.run_pass(["bench"])
                if not result.planned and len(charon.sas) == PEERS * TUNNELS:
                    break
            else:
                raise SystemExit(f"the tunnels did not come up: {len(charon.sas)} of {PEERS * TUNNELS}")
            async with FakeCharon(folder / "frozen.vici") as frozen:
                frozen.sas = charon.sas
                frozen.freeze()
                print("ready", flush=True)
                await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
            await api.stop()
        await adapter.close()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asyncio.run(serve(Path(sys.argv[1])))
