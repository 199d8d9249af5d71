"""The nftables guard: its named sets, filled in one transaction and saved for the next boot (D11).

The rules themselves are static and stand in templates/guard.nft. Everything that goes into nft's text is built from
checked names and from address objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network, summarize_address_range
from pathlib import Path
from typing import Any

from ikeorch.core.kernel_state import Guard, GuardPeer, IPNetwork, collapse_networks
from ikeorch.errors import KernelError, KernelFeatureError, NotPermittedError

TABLE = "inet ikeorch"
DEADLINE = 10.0
SETS = ("uplinks", "tunnels", "sources4", "sources6", "prefixes4", "prefixes6")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}")


@cache
def template() -> str:
    """The static rules with empty sets: nothing is forwarded."""
    return (files("templates") / "guard.nft").read_text(encoding="ascii")


def set_members(guard: Guard) -> dict[str, list[str]]:
    """The elements of each named set, as nft writes them.

    Raises:
        KernelError: an interface name that nft must not see.
    """
    members: dict[str, list[str]] = {name: [] for name in SETS}
    members["uplinks"] = [_quote(name) for name in guard.uplinks]
    for peer in guard.tunnels:
        members["tunnels"].append(_quote(peer.interface))
        for source in peer.sources:
            members[f"sources{source.version}"].append(f"{_quote(peer.interface)} . {source}")
    for prefix in guard.prefixes:
        members[f"prefixes{prefix.version}"].append(str(prefix))
    return members


def flush_set(name: str) -> str:
    """The nft command that empties a set."""
    return f"flush set {TABLE} {name}"


def add_elements(name: str, elements: Iterable[str]) -> str:
    """The nft command that adds to a set."""
    return f"add element {TABLE} {name} {{ {', '.join(elements)} }}"


def render_elements(guard: Guard) -> str:
    """Nft commands that give the sets exactly the guard's members.

    Raises:
        KernelError: an interface name that nft must not see.
    """
    lines = [flush_set(name) for name in SETS]
    lines += [add_elements(name, elements) for name, elements in set_members(guard).items() if elements]
    return "\n".join(lines) + "\n"


def _quote(device: str) -> str:
    if not _DEVICE.fullmatch(device):
        raise KernelError(f"{device!r} is no device name")
    return f'"{device}"'


def parse_sets(listing: str) -> Guard | None:
    """Read ``nft -j list table``; None when it is not of our making, so that the table is made anew.

    That is when a set is missing, or holds a name that we would never write.

    Raises:
        KernelError: the listing is not what nft prints.
    """
    try:
        sets = {
            entry["set"]["name"]: entry["set"].get("elem", [])
            for entry in json.loads(listing)["nftables"]
            if "set" in entry
        }
        if not set(SETS) <= set(sets):
            return None
        sources: dict[str, list[IPNetwork]] = {str(name): [] for name in sets["tunnels"]}
        for element in (*sets["sources4"], *sets["sources6"]):
            device, network = element["concat"]
            sources.setdefault(str(device), []).extend(_networks(network))
        prefixes = [net for element in (*sets["prefixes4"], *sets["prefixes6"]) for net in _networks(element)]
        uplinks = sorted(str(name) for name in sets["uplinks"])
    except (ValueError, KeyError, TypeError) as error:
        raise KernelError(f"nft's listing of {TABLE} cannot be read ({error!r})") from None
    if not all(_DEVICE.fullmatch(name) for name in (*uplinks, *sources)):
        return None
    return Guard(
        uplinks=tuple(uplinks),
        tunnels=tuple(
            GuardPeer(interface=device, sources=collapse_networks(networks))
            for device, networks in sorted(sources.items())
        ),
        prefixes=collapse_networks(prefixes),
    )


def _networks(element: Any) -> Iterable[IPNetwork]:  # noqa: ANN401 - nft's JSON
    """An element of an address set: one address, a prefix or a range."""
    if isinstance(element, str):
        return [ip_network(element)]
    if "prefix" in element:
        return [ip_network(f"{element['prefix']['addr']}/{element['prefix']['len']}")]
    first, last = (ip_address(text) for text in element["range"])
    if isinstance(first, IPv4Address) and isinstance(last, IPv4Address):
        return summarize_address_range(first, last)
    assert isinstance(first, IPv6Address)
    assert isinstance(last, IPv6Address)
    return summarize_address_range(first, last)


async def read_guard(saved: Path) -> Guard | None:
    """The guard as the kernel holds it, None without a usable table.

    Args:
        saved: file that the boot unit loads.

    Raises:
        KernelError: nft is missing or fails.
    """
    listing = await _list_table()
    found = parse_sets(listing) if listing is not None else None
    if listing is None or found is None:
        return None
    text = await asyncio.to_thread(_read, saved)
    return replace(found, saved=text == _boot_file(found, fingerprint(listing)))


async def _list_table() -> str | None:
    code, output, error = await _nft("-j", "list", "table", *TABLE.split())
    if code == 0:
        return output
    if "No such file" in error:
        return None
    raise _failed(error)


async def put_guard(guard: Guard, saved: Path) -> None:
    """Fill the sets in one transaction and save it all for the next boot.

    The table is made anew in the same transaction where it is missing, or where its rules are not the saved ones:
    somebody changed them, or they are of another version.

    Args:
        guard: members of the sets.
        saved: file that the boot unit loads before the network, mode 0600.

    Raises:
        KernelError: nft refuses, or the file cannot be written.
    """
    elements = render_elements(guard)
    before = await _list_table()
    text = await asyncio.to_thread(_read, saved)
    kept = before is not None and text.startswith(_head(fingerprint(before)))
    code, _, error = await _nft("-f", "-", text=elements if kept else template() + elements)
    if code != 0:
        raise _failed(error)
    after = await _list_table()
    if after is None:
        raise KernelError(f"nft's table {TABLE} went away while it was filled")
    await asyncio.to_thread(_save, saved, _boot_file(guard, fingerprint(after)))


def fingerprint(listing: str) -> str:
    """What the rules of ``nft -j list table`` are, whoever made them: chains and rules without their counts.

    Raises:
        KernelError: the listing is not what nft prints.
    """
    try:
        entries = [entry for entry in json.loads(listing)["nftables"] if "chain" in entry or "rule" in entry]
    except (ValueError, KeyError, TypeError) as error:
        raise KernelError(f"nft's listing of {TABLE} cannot be read ({error!r})") from None
    return hashlib.sha256(json.dumps(_without_counts(entries), sort_keys=True).encode()).hexdigest()


def _without_counts(value: Any) -> Any:  # noqa: ANN401 - nft's JSON
    if isinstance(value, dict):
        return {
            key: _without_counts(inner) for key, inner in value.items() if key not in {"handle", "packets", "bytes"}
        }
    if isinstance(value, list):
        return [_without_counts(inner) for inner in value]
    return value


def _head(rules: str) -> str:
    """The beginning of the boot file: our rules, and what the kernel showed when it had taken them."""
    return f"# Rules as nft lists them: {rules}\n{template()}"


def _boot_file(guard: Guard, rules: str) -> str:
    return _head(rules) + render_elements(guard)


def _read(path: Path) -> str:
    """The saved text; "" when there is none that could be loaded."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _save(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        what = f"the guard cannot be saved for the next boot: {error.strerror}"
        raise KernelError(what, where=str(path), hint="check disk and permissions") from None


def _failed(error: str) -> KernelError | NotPermittedError:
    line = " ".join(error.split())[:300]
    if "Operation not permitted" in error:
        return NotPermittedError("nft: not permitted", hint="the daemon needs CAP_NET_ADMIN; run it as root")
    return KernelError(f"nft: {line}")


async def _nft(*arguments: str, text: str | None = None) -> tuple[int, str, str]:
    """Run nft; exit code, stdout, stderr."""
    try:
        process = await asyncio.create_subprocess_exec(
            "nft",
            *arguments,
            stdin=asyncio.subprocess.PIPE if text is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise KernelFeatureError(f"nft cannot be run: {error.strerror}", hint="install the package nftables") from None
    try:
        async with asyncio.timeout(DEADLINE):
            output, error_text = await process.communicate(None if text is None else text.encode())
    except BaseException as error:
        process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise KernelError(f"nft did not end within {DEADLINE:.0f} s") from None
        raise
    return process.returncode or 0, output.decode(errors="replace"), error_text.decode(errors="replace")
