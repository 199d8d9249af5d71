"""XFRM interfaces: read them, bring one to its desired form, remove one."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from ipaddress import ip_interface

from ikeorch.adapters.kernel.netlink import Message, Netlink, NetlinkRefusedError
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPInterface, XfrmInterface
from ikeorch.errors import ForeignObjectError, KernelError

IFF_UP = 1
IFA_F_NODAD = 0x02
SCOPE_LINK = 253


@dataclass(frozen=True, slots=True)
class Links:
    """All network devices of the namespace.

    Attributes:
        names: by index.
        mtus: bytes, by name.
        owned: the XFRM interfaces that carry our alias.
        unmarked: by name, XFRM interfaces that were never up and have no alias at all: perhaps ours, half made.
    """

    names: dict[int, str]
    mtus: dict[str, int]
    owned: list[XfrmInterface]
    unmarked: dict[str, int]

    def index(self, name: str) -> int | None:
        """Index of a device."""
        return next((index for index, present in self.names.items() if present == name), None)


async def read_links(netlink: Netlink) -> Links:
    """All network devices."""
    links = await netlink.call("links", "get_links")
    names = {int(link["index"]): str(link.get("ifname")) for link in links}
    mtus = {str(link.get("ifname")): int(link.get("mtu") or 0) for link in links}
    xfrm = [link for link in links if _kind(link) == "xfrm"]
    owned = [link for link in xfrm if _tunnel(link) is not None]
    unmarked = {
        str(link.get("ifname")): _if_id(link) for link in xfrm if not link.get("ifalias") and not link["flags"] & IFF_UP
    }
    addresses: dict[int, list[IPInterface]] = {}
    if owned:
        for entry in await netlink.call("addresses", "get_addr"):
            if entry["scope"] != SCOPE_LINK:
                text = entry.get("local") or entry.get("address")
                addresses.setdefault(int(entry["index"]), []).append(ip_interface(f"{text}/{entry['prefixlen']}"))
    return Links(names, mtus, [_interface(link, names, addresses) for link in owned], unmarked)


def _if_id(link: Message) -> int:
    return int(link.get_nested("linkinfo", "data").get("xfrm_if_id") or 0)


def _interface(link: Message, names: dict[int, str], addresses: dict[int, list[IPInterface]]) -> XfrmInterface:
    tunnel = _tunnel(link)
    assert tunnel is not None
    data = link.get_nested("linkinfo", "data")
    found = addresses.get(int(link["index"]), [])
    return XfrmInterface(
        name=str(link.get("ifname")),
        tunnel=tunnel,
        if_id=_if_id(link),
        underlay=names.get(int(data.get("xfrm_link") or 0), ""),
        mtu=int(link.get("mtu") or 0),
        addresses=tuple(sorted(found, key=lambda address: (address.version, int(address.ip)))),
        up=bool(link["flags"] & IFF_UP),
    )


def _kind(link: Message) -> str:
    info = link.get("linkinfo")
    return str(info.get("kind")) if info is not None else ""


def _tunnel(link: Message) -> TunnelId | None:
    alias = link.get("ifalias")
    return TunnelId.from_alias(alias) if isinstance(alias, str) else None


async def ensure_interface(netlink: Netlink, wanted: XfrmInterface) -> None:
    """Create the interface, or bring the one that is there to the desired form.

    Raises:
        ForeignObjectError: an interface of that name or if_id is not ours.
        KernelError: the underlay device is missing, or the kernel refuses.
    """
    links = await read_links(netlink)
    found = next((entry for entry in links.owned if entry.name == wanted.name), None)
    if found is not None and (found.if_id != wanted.if_id or found.underlay != wanted.underlay):
        await remove_interface(netlink, wanted.name)
        links = await read_links(netlink)
        found = None
    if found is None:
        found = await _create(netlink, wanted, links)
        links = await read_links(netlink)
    index = links.index(wanted.name)
    assert index is not None
    subject = f"interface {wanted.name}"
    if found.tunnel != wanted.tunnel:
        await netlink.call(subject, "link", "set", index=index, ifalias=wanted.tunnel.alias)
    if found.mtu != wanted.mtu:
        await netlink.call(subject, "link", "set", index=index, mtu=wanted.mtu)
    await _set_addresses(netlink, index, found, wanted)
    if found.up != wanted.up:
        await netlink.call(subject, "link", "set", index=index, state="up" if wanted.up else "down")


async def _create(netlink: Netlink, wanted: XfrmInterface, links: Links) -> XfrmInterface:
    """Create it down, then mark it: an interface that a crash left between the two is recognised and taken.

    The kernel takes no alias at creation (rtnl_create_link), so the two cannot be one request.
    """
    underlay = links.index(wanted.underlay)
    if underlay is None:
        raise KernelError(
            f"there is no network device {wanted.underlay} for {wanted.name}",
            where=wanted.underlay,
            hint="check the cable and driver, or gateway.uplinks[].interface",
        )
    subject = f"interface {wanted.name}"
    half_made = links.unmarked.get(wanted.name) == wanted.if_id
    if links.index(wanted.name) is not None and not half_made:
        raise ForeignObjectError(
            f"an interface {wanted.name} exists that is not ours",
            where=wanted.name,
            hint=f"remove it, or give it the alias {wanted.tunnel.alias!r} if it is",
        )
    try:
        if half_made:
            await netlink.call(subject, "link", "del", index=links.index(wanted.name))
        await netlink.call(
            subject,
            "link",
            "add",
            ifname=wanted.name,
            kind="xfrm",
            xfrm_link=underlay,
            xfrm_if_id=wanted.if_id,
        )
    except NetlinkRefusedError as error:
        if error.number != errno.EEXIST:
            raise
        raise ForeignObjectError(
            f"an interface that is not ours has if_id {wanted.if_id}",
            where=wanted.name,
            hint="find it with `ip -d link show type xfrm` and remove it",
        ) from None
    index = (await read_links(netlink)).index(wanted.name)
    await netlink.call(subject, "link", "set", index=index, ifalias=wanted.tunnel.alias)
    return next(entry for entry in (await read_links(netlink)).owned if entry.name == wanted.name)


async def _set_addresses(netlink: Netlink, index: int, found: XfrmInterface, wanted: XfrmInterface) -> None:
    subject = f"addresses of {wanted.name}"
    for address in set(found.addresses) - set(wanted.addresses):
        await netlink.call(
            subject, "addr", "del", index=index, address=str(address.ip), prefixlen=address.network.prefixlen
        )
    for address in sorted(set(wanted.addresses) - set(found.addresses), key=str):
        options: dict[str, object] = {"address": str(address.ip), "prefixlen": address.network.prefixlen}
        if address.version == 6:
            options |= {"family": socket.AF_INET6, "flags": IFA_F_NODAD}
        await netlink.call(subject, "addr", "replace", index=index, **options)


async def remove_interface(netlink: Netlink, name: str) -> None:
    """Remove an interface of ours; one that is not there, or not ours, is left."""
    links = await read_links(netlink)
    index = links.index(name)
    if index is not None and any(entry.name == name for entry in links.owned):
        await netlink.call(f"interface {name}", "link", "del", index=index)
