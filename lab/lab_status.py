"""The view behind `ikeorch lab status`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

from lab.background import connect, running
from lab.channel import Streams, run_command
from lab.guest import REPO
from lab.wire import Start

FORMAT_VERSION = 1


def collect_status() -> dict[str, Any]:
    """Return the background lab as a JSON view.

    Returns:
        format_version, up, and where it is up: name, topology, kernel, pid, up_seconds, and each node's name, role and
        daemons (pid in the node, starts, last_exit, wanted).

    Raises:
        LabError: It is up but does not answer.
    """
    lab = running()
    if lab is None:
        return {"format_version": FORMAT_VERSION, "up": False}
    channel = connect(lab)
    argv = (sys.executable, "-m", "lab.daemon_status", *(node.socket for node in lab.nodes))
    try:
        with tempfile.TemporaryFile() as answer:
            streams = Streams(stdout=answer.fileno())
            run_command(channel, Start(id=1, argv=argv, cwd=str(REPO)), streams, timeout=30)
            answer.seek(0, os.SEEK_SET)
            daemons = json.loads(answer.read() or b"{}")
    finally:
        channel.close()
    return {
        "format_version": FORMAT_VERSION,
        "up": True,
        "name": lab.name,
        "topology": lab.topology,
        "kernel": lab.kernel,
        "pid": lab.pid,
        "up_seconds": round(time.time() - lab.since, 1),
        "nodes": [{"name": node.name, "role": node.role, "daemons": daemons.get(node.name)} for node in lab.nodes],
    }


def render_table(view: dict[str, Any]) -> str:
    """Return the view as text for people."""
    if not view["up"]:
        return "No lab is up. Start one with `ikeorch lab up`."
    lines = [
        f"The lab {view['name']} is up for {view['up_seconds']:.0f} s, on a {view['kernel']} kernel.",
        "",
        f"{'NODE':<10} {'ROLE':<8} DAEMONS",
    ]
    for node in view["nodes"]:
        text = ", ".join(_daemon(name, state) for name, state in (node["daemons"] or {}).items())
        lines.append(f"{node['name']:<10} {node['role']:<8} {text or '-'}".rstrip())
    return "\n".join(lines)


def _daemon(name: str, state: dict[str, Any]) -> str:
    if state["pid"] is None:
        return f"{name} down" + (" (restarting)" if state["wanted"] else "")
    restarts = state["starts"] - 1
    return f"{name} {state['pid']}" + (f" ({restarts} restarts)" if restarts else "")
