"""A saved snapshot: nothing is lost on the way, and a hostile one is refused with a place, whatever it holds."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeorch.config.loader import load_config
from ikeorch.config.snapshot import MAX_BYTES, Snapshot, dump_snapshot, parse_snapshot, read_snapshot
from ikeorch.config.sources import Source
from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.establish import Attempt, Memory
from ikeorch.core.fabric_state import FabricSession, FabricState
from ikeorch.core.health import Verdict
from ikeorch.core.kernel_state import KernelState
from ikeorch.core.planner import plan_changes
from ikeorch.core.renew import Renewal, Renewals, Standing
from ikeorch.core.units import Seconds
from ikeorch.daemon.planning import plan_offline
from ikeorch.errors import IkeorchError, UsageError
from tests.examples import GATEWAY_A, world_of

FABRIC = "fabric: {neighbors: [{address: 10.0.0.254, asn: 65001}], bandwidth_scale: 1/8}\n"
LOADED = load_config(GATEWAY_A + FABRIC, "gw-a.yaml")
TUNNELS = LOADED.spec.peers[0].tunnel_ids


def snapshot() -> Snapshot:
    """A gateway of which much is to be said."""
    spec = LOADED.spec
    desired = plan_changes(spec, world_of(spec, verdicts=dict.fromkeys(TUNNELS, Verdict.UP))).desired
    assert desired.connections is not None
    child = ChildSa(name="ikeorch.gw-b.0", unique_id=2, state=ChildState.INSTALLED, spi_in=0xC0DE, bytes_in=2**40)
    sa = IkeSa(
        connection="ikeorch.gw-b.0",
        unique_id=1,
        state=IkeState.ESTABLISHED,
        local_address=ip_address("192.0.2.1"),
        age=Seconds(12),
        children=(child,),
    )
    charon = CharonState(
        version="5.9.8",
        started="1",
        connections=frozenset({"office", *desired.connections}),
        loaded=desired.connections,
        authorities=frozenset({"ikeorch-ca-1"}),
        keys=frozenset({"ab" * 20}),
        sas=(sa,),
    )
    (leaf,) = spec.fabric.neighbors
    session = FabricSession(neighbor=leaf, up=True, reason="", since=Seconds(7.5), sent=desired.fabric.routes)
    world = replace(
        world_of(spec, verdicts={TUNNELS[0]: Verdict.UP, TUNNELS[1]: Verdict.RECOVERING}),
        actual=Actual(
            kernel=KernelState(objects=desired.kernel, resilient=True, devices={"lo": 65536, "eth1": 1500}),
            charon=charon,
            fabric=FabricState(wish=desired.fabric, sessions=(session,)),
        ),
        memory=Memory(charon_started="1", attempts={TUNNELS[2]: Attempt(seen=True, connecting=(4, Seconds(999.5)))}),
        renewals=Renewals(
            standings={
                TUNNELS[0]: Standing(
                    made_with="ab",
                    renewal=Renewal(since=Seconds(998), old_ids=frozenset({1}), old_children=frozenset({2})),
                )
            }
        ),
    )
    unseen = (Condition(code=Code.PROBER_UNREACHABLE, subject="", message="no socket"),)
    return Snapshot(
        taken=Seconds(1.8e9),
        sources=LOADED.sources,
        in_force=LOADED.sources,
        files=spec.credentials,
        world=world,
        unseen=unseen,
    )


SNAPSHOT = snapshot()
FILE: dict[str, Any] = json.loads(json.dumps(dump_snapshot(SNAPSHOT)))


def test_nothing_is_lost_on_the_way() -> None:
    """What is read is what was written, value for value; what could not be seen is still not seen."""
    assert parse_snapshot(json.dumps(FILE).encode()) == SNAPSHOT
    blind = replace(SNAPSHOT, world=replace(SNAPSHOT.world, actual=Actual(kernel=None, charon=None), credentials=None))
    assert parse_snapshot(json.dumps(dump_snapshot(blind)).encode()) == blind


def test_a_certificate_stands_in_it_once() -> None:
    """A thousand connections name it by its number."""
    assert FILE["certificates"] == ["CERT", "CA"]
    assert FILE["charon"]["loaded"]["ikeorch.gw-b.3"]["ca"] == "1"


def changed(*where: str | int, to: object) -> bytes:
    """The file with one value replaced."""
    data = copy.deepcopy(FILE)
    at: Any = data
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = to
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is no snapshot: Expecting value"),
        (b'{"\xff', "it is no text"),
        (b"[]", "it is no JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format_version": 2}', "format_version is 2, this version reads 1"),
        (b'{"format_version": NaN}', "NaN is no number"),
        (b'{"format_version": 1}', "taken: Field required"),
        (changed("now", to=float("inf")), "Infinity is no number"),
        (changed("more", to=1), "more: Extra inputs are not permitted"),
        (changed("kernel", "interfaces", 0, "mtu", to="much"), "kernel.interfaces.0.mtu"),
        (changed("kernel", "interfaces", 0, "tunnel", "peer", to="x; reboot"), "is no tunnel's name"),
        (changed("kernel", "interfaces", 0, "tunnel", "index", to=256), "is no tunnel's name"),
        (changed("kernel", "devices", to={"eth\x1b[2J": 1}), "kernel.devices: a text that is too long, or holds"),
        (changed("kernel", "resilient", to=[[[[]]]]), "kernel.resilient"),
        (changed("kernel", "guards", to=FILE["kernel"]["guards"] * 2), "kernel.guards"),
        (changed("kernel", "next_hops", 0, "id", to=2**70), "kernel.next_hops.0.id: a number that is too large"),
        (changed("verdicts", 0, 0, to="gw-b"), "verdicts.0.0: Value error, is no tunnel's name such as gw-b/0"),
        (changed("verdicts", 0, 1, to="fine"), "verdicts.0.1"),
        (changed("charon", "loaded", "ikeorch.gw-b.0", "certificate", to="7"), "there is no certificate '7'"),
        (changed("charon", "loaded", "other", to=FILE["charon"]["loaded"]["ikeorch.gw-b.0"]), "another one's name"),
        (changed("sources", to="[1]"), "sources: these are no files of a configuration"),
        (changed("numbers", 0, 0, to="colour"), "numbers.0.0"),
    ],
)
def test_a_hostile_file_is_refused_with_its_place(tmp_path: Path, raw: bytes, said: str) -> None:
    """One line that can be printed, exit code 64, the way to a good one."""
    path = tmp_path / "snapshot.json"
    path.write_bytes(raw)
    with pytest.raises(UsageError) as caught:
        read_snapshot(path)
    text = str(caught.value)
    assert said in text
    assert text.isprintable()
    assert len(text) < 500
    assert text.startswith(f"{path}: ")
    assert text.endswith("; make one with `ikeorch plan --save-snapshot FILE`")


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    """No more is read than a snapshot may have; one that is not there is said so."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="is larger than"):
        read_snapshot(path)
    with pytest.raises(UsageError, match="No such file"):
        read_snapshot(tmp_path / "none")


PLACES: list[tuple[str | int, ...]] = []


def _collect(value: object, where: tuple[str | int, ...]) -> None:
    PLACES.append(where)
    if isinstance(value, dict):
        for key, inner in value.items():
            _collect(inner, (*where, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _collect(inner, (*where, at))


_collect(FILE, ())
ODD: st.SearchStrategy[object] = st.one_of(
    st.sampled_from(["", "::/0", "x" * 300, "\x00", "-1", "ikeorch:", "NaN", 0, -1, 2**62, 1e300, True, None, [], {}]),
    st.text(max_size=8),
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES[1:]), ODD), min_size=1, max_size=3))
def test_whatever_a_file_holds_gives_a_plan_or_an_error(changes: list[tuple[tuple[str | int, ...], object]]) -> None:
    """Values that are well formed and make no sense, too: never a traceback, also where commands are written."""
    data = copy.deepcopy(FILE)
    for where, value in changes:
        _put(data, where, value)
    try:
        view = plan_offline(parse_snapshot(json.dumps(data).encode()), explain=True)
    except (ValueError, IkeorchError) as error:
        assert str(error)
    else:
        assert all(line.isprintable() for action in view["actions"] for line in action["commands"])


def _put(data: Any, where: tuple[str | int, ...], value: object) -> None:
    """Replace a value; one that an earlier change took away stays away."""
    try:
        for key in where[:-1]:
            data = data[key]
        data[where[-1]] = value
    except (LookupError, TypeError):
        pass


def test_other_credential_files_than_the_saved_ones_are_not_seen() -> None:
    """What stands in them is not known, so charon's part of the plan is left out and said to be."""
    other = load_config((GATEWAY_A + FABRIC).replace("/pki/gw-a.pem", "/pki/new.pem"), "gw-a.yaml")
    view = plan_offline(SNAPSHOT, other)
    assert [each["code"] for each in view["unseen"]] == ["prober-unreachable", "credentials-unreadable"]
    assert not any("charon connection" in each["action"] for each in view["actions"])
    assert any("charon connection" in each["action"] for each in plan_offline(SNAPSHOT, more())["actions"])


def more() -> Any:
    """The same gateway with a fifth tunnel."""
    return load_config((GATEWAY_A + FABRIC).replace("count: 4", "count: 5"), "gw-a.yaml")


def test_a_snapshot_without_a_configuration_needs_one() -> None:
    """The command says how to name it."""
    empty = replace(SNAPSHOT, sources=())
    with pytest.raises(UsageError, match="name one with --config FILE"):
        plan_offline(empty)
    assert plan_offline(empty, more())["in_force"] is False
    broken = replace(SNAPSHOT, sources=(Source("gw-a.yaml", "peers: ["),))
    with pytest.raises(IkeorchError, match=r"gw-a\.yaml:1"):
        plan_offline(broken)


def test_a_tunnel_that_no_number_is_left_for_is_an_error() -> None:
    """Not a traceback."""
    data = copy.deepcopy(FILE)
    data["numbers"] = [["table", "isp1", 9999]]
    with pytest.raises(UsageError, match="no table is left for isp2"):
        plan_offline(parse_snapshot(json.dumps(data).encode()))
