"""XFRM interfaces: read them, bring one to its desired form, remove one."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_interface

from ikeorch.adapters.kernel.netlink import Message, Netlink, NetlinkRefusedError
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPInterface, XfrmInterface
from ikeorch.errors import ForeignObjectError

IFF_UP = 1
IFA_F_NODAD = 0x02
SCOPE_LINK = 253


async def read_links(netlink: Netlink) -> tuple[dict[int, str], dict[str, int], list[XfrmInterface]]:
    """All network devices.

    Returns:
        Names by index, MTUs by name, and the XFRM interfaces that carry our alias.
    """
    links = await netlink.call("links", "get_links")
    names = {int(link["index"]): str(link.get("ifname")) for link in links}
    mtus = {str(link.get("ifname")): int(link.get("mtu") or 0) for link in links}
    owned = [link for link in links if _kind(link) == "xfrm" and _tunnel(link) is not None]
    addresses: dict[int, list[IPInterface]] = {}
    if owned:
        for entry in await netlink.call("addresses", "get_addr"):
            if entry["scope"] != SCOPE_LINK:
                text = entry.get("local") or entry.get("address")
                addresses.setdefault(int(entry["index"]), []).append(ip_interface(f"{text}/{entry['prefixlen']}"))
    return names, mtus, [_interface(link, names, addresses) for link in owned]


def _interface(link: Message, names: dict[int, str], addresses: dict[int, list[IPInterface]]) -> XfrmInterface:
    tunnel = _tunnel(link)
    assert tunnel is not None
    data = link.get_nested("linkinfo", "data")
    found = addresses.get(int(link["index"]), [])
    return XfrmInterface(
        name=str(link.get("ifname")),
        tunnel=tunnel,
        if_id=int(data.get("xfrm_if_id") or 0),
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
    names, _, owned = await read_links(netlink)
    indices = {name: index for index, name in names.items()}
    found = next((entry for entry in owned if entry.name == wanted.name), None)
    if found is None and wanted.name in indices:
        raise ForeignObjectError(
            f"an interface {wanted.name} exists that is not ours",
            where=wanted.name,
            hint=f"remove it, or give it the alias {wanted.tunnel.alias!r} if it is",
        )
    if found is not None and (found.if_id != wanted.if_id or found.underlay != wanted.underlay):
        await netlink.call(f"interface {wanted.name}", "link", "del", index=indices[wanted.name])
        found = None
    if found is None:
        if wanted.underlay not in indices:
            raise ForeignObjectError(
                f"there is no network device {wanted.underlay} for {wanted.name}",
                where=wanted.underlay,
                hint="check the cable and driver, or gateway.uplinks[].interface",
            )
        await _create(netlink, wanted, indices[wanted.underlay])
        names, _, owned = await read_links(netlink)
        indices = {name: index for index, name in names.items()}
        found = next(entry for entry in owned if entry.name == wanted.name)
    index = indices[wanted.name]
    subject = f"interface {wanted.name}"
    if found.tunnel != wanted.tunnel:
        await netlink.call(subject, "link", "set", index=index, ifalias=wanted.tunnel.alias)
    if found.mtu != wanted.mtu:
        await netlink.call(subject, "link", "set", index=index, mtu=wanted.mtu)
    await _set_addresses(netlink, index, found, wanted)
    if found.up != wanted.up:
        await netlink.call(subject, "link", "set", index=index, state="up" if wanted.up else "down")


async def _create(netlink: Netlink, wanted: XfrmInterface, underlay: int) -> None:
    """Create it with its mark of ownership in one request: there is never an interface of ours without one."""
    try:
        await netlink.call(
            f"interface {wanted.name}",
            "link",
            "add",
            ifname=wanted.name,
            kind="xfrm",
            xfrm_link=underlay,
            xfrm_if_id=wanted.if_id,
            ifalias=wanted.tunnel.alias,
            mtu=wanted.mtu,
        )
    except NetlinkRefusedError as error:
        if error.number != errno.EEXIST:
            raise
        raise ForeignObjectError(
            f"an interface that is not ours has if_id {wanted.if_id}",
            where=wanted.name,
            hint="find it with `ip -d link show type xfrm` and remove it",
        ) from None


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
    names, _, owned = await read_links(netlink)
    for index, present in names.items():
        if present == name and any(entry.name == name for entry in owned):
            await netlink.call(f"interface {name}", "link", "del", index=index)
