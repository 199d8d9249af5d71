"""One tunnel's names in each system, and what is not ours."""

from __future__ import annotations

import pytest

from ikeorch.core.ids import TunnelId


def test_a_tunnel_has_one_name_in_each_system() -> None:
    """People, charon and the kernel see the same tunnel."""
    tunnel = TunnelId("gw-b", 3)
    assert str(tunnel) == "gw-b/3"
    assert tunnel.connection == "ikeorch.gw-b.3"
    assert tunnel.alias == "ikeorch:gw-b/3"
    assert TunnelId.from_connection(tunnel.connection) == TunnelId.from_alias(tunnel.alias) == tunnel


@pytest.mark.parametrize(
    "name",
    ["gw-b.3", "ikeorch.gw-b", "ikeorch.gw-b.03", "ikeorch.gw-b.256", "ikeorch.GW.1", "ikeorch..1", "ikeorch.a.-1"],
)
def test_foreign_connections_are_not_ours(name: str) -> None:
    """Whatever does not carry our whole mark is left alone."""
    assert TunnelId.from_connection(name) is None


@pytest.mark.parametrize("alias", ["", "gw-b/3", "ikeorch:", "ikeorch:gw-b", "ikeorch:gw-b/999", "other:gw-b/1"])
def test_foreign_aliases_are_not_ours(alias: str) -> None:
    """The same holds for interfaces."""
    assert TunnelId.from_alias(alias) is None
