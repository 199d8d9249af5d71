"""The block that tells the other gateway about us: what `ikeorch tunnel add` prints and `ikeorch peer add` takes."""

from __future__ import annotations

import io

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from ikeorch.config.document import new_yaml
from ikeorch.core.spec import GatewaySpec, Initiate, PeerSpec
from ikeorch.core.suites import DEFAULT_SUITE
from ikeorch.core.units import format_duration, format_rate
from ikeorch.errors import UsageError

_MIRRORED = {Initiate.AUTO: "auto", Initiate.US: "peer", Initiate.PEER: "us"}


def render_peer_block(spec: GatewaySpec, peer: PeerSpec) -> str:
    """Our side of a bundle as the other gateway's ``peers`` entry.

    Args:
        spec: this gateway.
        peer: the gateway that the block is for.

    Returns:
        YAML, one mapping.

    Raises:
        UsageError: a suite of its own, or identities set by hand, which the other side must write itself.
    """
    if peer.tunnels.suite != DEFAULT_SUITE or peer.tunnels.identities:
        raise UsageError(
            f"the bundle to {peer.name!r} has a suite or identities of its own",
            hint="write the peer's block by hand: a suite is named in the file of its own gateway",
        )
    block = CommentedMap()
    block["name"] = spec.name
    block["site"] = spec.site
    block["identity"] = spec.identity
    block["asn"] = spec.asn
    block["uplinks"] = CommentedSeq(
        _flow({"name": uplink.name, "addresses": [_scalar(address.ip) for address in uplink.addresses]})
        for uplink in spec.uplinks
    )
    block["inner"] = _flow_list([_scalar(network) for network in peer.inner])
    if peer.initiate is not Initiate.AUTO:
        block["initiate"] = _MIRRORED[peer.initiate]
    block["prefixes"] = _flow_list([_scalar(prefix) for prefix in spec.prefixes])
    tunnels = peer.tunnels
    block["tunnels"] = _flow(
        {
            "count": tunnels.count,
            **({} if tunnels.mtu is None else {"mtu": tunnels.mtu}),
            "capacity": format_rate(tunnels.capacity),
            "rekey_time": format_duration(tunnels.rekey_time),
            "dpd_delay": format_duration(tunnels.dpd_delay),
            "replay_window": tunnels.replay_window,
            **({"mobike": "yes"} if tunnels.mobike else {}),
        }
    )
    buffer = io.StringIO()
    buffer.write(f"# peer block of {spec.name}, for {peer.name}: ikeorch peer add -f -\n")
    yaml = new_yaml()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(block, buffer)
    return buffer.getvalue()


def _scalar(value: object) -> str:
    """Text that YAML must not take for something else (an IPv6 address holds colons)."""
    text = str(value)
    return DoubleQuotedScalarString(text) if ":" in text else text


def _flow(values: dict[str, object]) -> CommentedMap:
    mapping = CommentedMap(
        {key: _flow_list(value) if isinstance(value, list) else value for key, value in values.items()}
    )
    mapping.fa.set_flow_style()
    return mapping


def _flow_list(values: list[str]) -> CommentedSeq:
    sequence = CommentedSeq(values)
    sequence.fa.set_flow_style()
    return sequence
