"""The block that tells the other gateway about us: what `ikeorch tunnel add` prints and `ikeorch peer add` takes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from ikeorch.config.document import new_yaml
from ikeorch.config.overlap import overlaps
from ikeorch.core.kernel_state import IPNetwork
from ikeorch.core.spec import GatewaySpec, Initiate, PeerSpec
from ikeorch.core.suites import DEFAULT_SUITE
from ikeorch.core.units import BitsPerSecond, format_duration, format_rate
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
    tunnels = peer.tunnels
    return _render(
        spec,
        f"# peer block of {spec.name}, for {peer.name}: ikeorch peer add -f -\n",
        peer.inner,
        _MIRRORED[peer.initiate],
        {
            "count": tunnels.count,
            **({} if tunnels.mtu is None else {"mtu": tunnels.mtu}),
            "capacity": format_rate(tunnels.capacity),
            "rekey_time": format_duration(tunnels.rekey_time),
            "dpd_delay": format_duration(tunnels.dpd_delay),
            "replay_window": tunnels.replay_window,
            **({"mobike": "yes"} if tunnels.mobike else {}),
        },
    )


def render_first_block(spec: GatewaySpec, inner: Sequence[IPNetwork], capacity: BitsPerSecond) -> str:
    """This gateway as the ``peers`` entry of one that it does not know yet; without tunnels.

    Args:
        spec: this gateway.
        inner: networks for the tunnels' inner addresses, one a family, which no other bundle has.
        capacity: of one tunnel.

    Returns:
        YAML, one mapping.

    Raises:
        UsageError: the inner networks do not fit this gateway's configuration.
    """
    families = [network.version for network in inner]
    if len(set(families)) < len(families) or not families:
        raise UsageError("one or two inner networks are needed", hint="give one IPv4 or one IPv6 network, or both")
    missing = next((prefix for prefix in spec.prefixes if prefix.version not in families), None)
    if missing is not None:
        hint = f"give an IPv{missing.version} network too: tunnels carry a family by inner addresses of it"
        raise UsageError(f"this gateway's {missing} needs an inner IPv{missing.version} network", hint=hint)
    taken = [(other, f"this gateway's {other}") for other in spec.prefixes]
    taken += [(other, f"{other} of {peer.name}") for peer in spec.peers for other in (*peer.inner, *peer.prefixes)]
    for network in inner:
        for other, text in taken:
            if overlaps(network, other):
                raise UsageError(f"the inner network {network} overlaps {text}", hint="take one that nothing else has")
    heading = (
        f"# peer block of {spec.name}, without tunnels: ikeorch peer add -f -, then ikeorch tunnel add {spec.name}\n"
    )
    return _render(spec, heading, inner, "auto", {"count": 0, "capacity": format_rate(capacity)})


def _render(
    spec: GatewaySpec, heading: str, inner: Sequence[IPNetwork], initiate: str, tunnels: dict[str, object]
) -> str:
    block = CommentedMap()
    block["name"] = spec.name
    block["site"] = spec.site
    block["identity"] = spec.identity
    block["asn"] = spec.asn
    block["uplinks"] = CommentedSeq(
        _flow({"name": uplink.name, "addresses": [_scalar(address.ip) for address in uplink.addresses]})
        for uplink in spec.uplinks
    )
    block["inner"] = _flow_list([_scalar(network) for network in inner])
    if initiate != "auto":
        block["initiate"] = initiate
    block["prefixes"] = _flow_list([_scalar(prefix) for prefix in spec.prefixes])
    block["tunnels"] = _flow(tunnels)
    buffer = io.StringIO()
    buffer.write(heading)
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
