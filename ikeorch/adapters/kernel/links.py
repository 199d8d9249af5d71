"""XFRM interfaces: read them, bring one to its desired form, remove one."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass, replace
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
    """

    names: dict[int, str]
    mtus: dict[str, int]
    owned: list[XfrmInterface]


async def read_links(netlink: Netlink) -> Links:
    """All network devices."""
    links = await netlink.call("links", "get_links")
    names = {int(link["index"]): str(link.get("ifname")) for link in links}
    mtus = {str(link.get("ifname")): int(link.get("mtu") or 0) for link in links}
    owned = [link for link in links if _kind(link) == "xfrm" and _tunnel(link) is not None]
    addresses = await _addresses(netlink) if owned else {}
    return Links(names, mtus, [_interface(link, names, addresses) for link in owned])


async def _read_link(netlink: Netlink, name: str) -> Message | None:
    """One device, None when there is none of that name; a dump of all would cost more with every tunnel."""
    try:
        (link,) = await netlink.call(f"interface {name}", "link", "get", ifname=name)
    except NetlinkRefusedError as error:
        if error.number != errno.ENODEV:
            raise
        return None
    return link


async def _addresses(netlink: Netlink) -> dict[int, list[IPInterface]]:
    """All addresses by the device's index, without link-local ones."""
    addresses: dict[int, list[IPInterface]] = {}
    for entry in await netlink.call("addresses", "get_addr"):
        if entry["scope"] != SCOPE_LINK:
            text = entry.get("local") or entry.get("address")
            addresses.setdefault(int(entry["index"]), []).append(ip_interface(f"{text}/{entry['prefixlen']}"))
    return addresses


def _if_id(link: Message) -> int:
    return int(link.get_nested("linkinfo", "data").get("xfrm_if_id") or 0)


def _underlay(link: Message) -> int:
    return int(link.get_nested("linkinfo", "data").get("xfrm_link") or 0)


def _name(index: int) -> str:
    """The device's name, "" when it is gone."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return ""


def _interface(link: Message, names: dict[int, str], addresses: dict[int, list[IPInterface]]) -> XfrmInterface:
    tunnel = _tunnel(link)
    assert tunnel is not None
    found = addresses.get(int(link["index"]), [])
    return XfrmInterface(
        name=str(link.get("ifname")),
        tunnel=tunnel,
        if_id=_if_id(link),
        underlay=names.get(_underlay(link), ""),
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
    link = await _read_link(netlink, wanted.name)
    if link is not None and _kind(link) == "xfrm" and _tunnel(link) is not None:
        underlay = _name(_underlay(link))
        found = _interface(link, {_underlay(link): underlay}, await _addresses(netlink))
        if found.can_become(wanted):
            await _adjust(netlink, int(link["index"]), found, wanted)
            return
        await netlink.call(f"interface {wanted.name}", "link", "del", index=int(link["index"]))
        link = None
    if link is not None and not _half_made(link, wanted.if_id):
        raise ForeignObjectError(
            f"an interface {wanted.name} exists that is not ours",
            where=wanted.name,
            hint=f"remove it, or give it the alias {wanted.tunnel.alias!r} if it is",
        )
    index = await _create(netlink, wanted, None if link is None else int(link["index"]))
    await _adjust(netlink, index, replace(wanted, mtu=0, addresses=(), up=False), wanted)


def _half_made(link: Message, if_id: int) -> bool:
    """Whether it looks like ours after a crash between making and marking: no alias, never up, with our if_id."""
    return _kind(link) == "xfrm" and not link.get("ifalias") and not link["flags"] & IFF_UP and _if_id(link) == if_id


async def _create(netlink: Netlink, wanted: XfrmInterface, half_made: int | None) -> int:
    """Create it down, then mark it: an interface that a crash left between the two is recognised and made anew.

    The kernel takes no alias at creation (rtnl_create_link), so the two cannot be one request.

    Args:
        netlink: the socket.
        wanted: the interface.
        half_made: index of what a crash left, or None.

    Returns:
        Its index.
    """
    try:
        underlay = socket.if_nametoindex(wanted.underlay)
    except OSError:
        raise KernelError(
            f"there is no network device {wanted.underlay} for {wanted.name}",
            where=wanted.underlay,
            hint="check the cable and driver, or gateway.uplinks[].interface",
        ) from None
    subject = f"interface {wanted.name}"
    try:
        if half_made is not None:
            await netlink.call(subject, "link", "del", index=half_made)
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
    link = await _read_link(netlink, wanted.name)
    if link is None:
        raise KernelError(f"{subject} vanished while it was made", where=wanted.name)
    await netlink.call(subject, "link", "set", index=int(link["index"]), ifalias=wanted.tunnel.alias)
    return int(link["index"])


async def _adjust(netlink: Netlink, index: int, found: XfrmInterface, wanted: XfrmInterface) -> None:
    """Change what can be changed in place."""
    subject = f"interface {wanted.name}"
    if found.tunnel != wanted.tunnel:
        await netlink.call(subject, "link", "set", index=index, ifalias=wanted.tunnel.alias)
    if found.mtu != wanted.mtu:
        await netlink.call(subject, "link", "set", index=index, mtu=wanted.mtu)
    await _set_addresses(netlink, index, found.addresses, wanted)
    if found.up != wanted.up:
        await netlink.call(subject, "link", "set", index=index, state="up" if wanted.up else "down")


async def _set_addresses(netlink: Netlink, index: int, found: tuple[IPInterface, ...], wanted: XfrmInterface) -> None:
    subject = f"addresses of {wanted.name}"
    for address in set(found) - set(wanted.addresses):
        await netlink.call(
            subject, "addr", "del", index=index, address=str(address.ip), prefixlen=address.network.prefixlen
        )
    for address in sorted(set(wanted.addresses) - set(found), key=str):
        options: dict[str, object] = {"address": str(address.ip), "prefixlen": address.network.prefixlen}
        if address.version == 6:
            options |= {"family": socket.AF_INET6, "flags": IFA_F_NODAD}
        await netlink.call(subject, "addr", "replace", index=index, **options)


async def remove_interface(netlink: Netlink, name: str) -> None:
    """Remove an interface of ours; one that is not there, or not ours, is left."""
    link = await _read_link(netlink, name)
    if link is None or _kind(link) != "xfrm" or _tunnel(link) is None:
        return
    try:
        await netlink.call(f"interface {name}", "link", "del", index=int(link["index"]))
    except NetlinkRefusedError as error:
        if error.number != errno.ENODEV:
            raise
