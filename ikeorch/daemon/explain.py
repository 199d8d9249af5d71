"""``plan --explain``: the lines of ip, nft, sysctl, swanctl and ExaBGP that each action of a plan stands for.

The plan is followed from beginning to end, so that a line says `replace` only where something stands by then. Run by
hand in this order, the kernel's lines bring it to the same state. What no tool has a command for is a comment. Nothing
secret is known here: keys and certificates are named by their files.
"""

from __future__ import annotations

from typing import assert_never

from ikeorch.core.kernel_state import KernelObject, ObjectKey, XfrmInterface, without_devices
from ikeorch.core.plan import (
    Advertise,
    EnsureObject,
    Initiate,
    LoadAuthority,
    LoadConnection,
    LoadKey,
    Operation,
    RemoveObject,
    Terminate,
    UnloadConnection,
)
from ikeorch.core.planner import Planned
from ikeorch.daemon.explain_charon import (
    authority_lines,
    connection_lines,
    initiate_lines,
    key_lines,
    terminate_lines,
    unload_lines,
)
from ikeorch.daemon.explain_fabric import fabric_lines
from ikeorch.daemon.explain_kernel import ensure_lines, remove_lines


def explain_plan(planned: Planned) -> list[list[str]]:
    """The lines of each action, in the plan's order; at least one line each.

    Raises:
        KernelError: a device name that nft must not see.
        ValueError: a connection that charon would not take as meant.
    """
    kernel = planned.actual.kernel
    standing = dict(kernel.objects) if kernel else {}
    return [_explain(action.operation, planned, standing) for action in planned.actions]


def _explain(operation: Operation, planned: Planned, standing: dict[ObjectKey, KernelObject]) -> list[str]:
    """One operation's lines; `standing` is brought up to date."""
    files, socket = planned.spec.credentials, planned.spec.vici_socket
    match operation:
        case Advertise(wish, _):
            return fabric_lines(planned.actual.fabric.wish, wish)
        case EnsureObject(target):
            found = standing.get(target.key)
            if isinstance(target, XfrmInterface) and isinstance(found, XfrmInterface) and not found.can_become(target):
                left = without_devices(standing, {target.name})
                standing.clear()
                standing.update(left)
            standing[target.key] = target
            return ensure_lines(target, found)
        case RemoveObject(target):
            standing.pop(target.key, None)
            return remove_lines(target)
        case LoadAuthority(name):
            return authority_lines(name, files)
        case LoadKey():
            return key_lines(files)
        case LoadConnection(connection):
            return connection_lines(connection, files)
        case UnloadConnection(name):
            return unload_lines(name)
        case Initiate(tunnel):
            return initiate_lines(tunnel.connection, socket)
        case Terminate(_, ike_id, force):
            return terminate_lines(ike_id, socket, force=force)
        case _:
            assert_never(operation)
