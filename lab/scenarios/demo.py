"""``make demo``: the reference scenario in plain words, on a real data plane.

Two sites join over two providers with four tunnels; the fabric learns of it by BGP; flows spread over the tunnels; a
provider goes dark; parts of the gateway are killed under traffic and nothing is lost. Everything that is shown is read
from the kernel, charon, FRR and the hosts, and every claim is checked: the exit code is 0 only when all hold.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from lab.control import LabError
from lab.runner import TWO_DC, Lab
from lab.scenarios.demo_faults import daemon_killed, fabric, helpers_killed, provider_dark
from lab.scenarios.observe import children, group_of, xfrm_interfaces
from lab.scenarios.report import Report
from lab.scenarios.sites import (
    CA_FOLDER,
    FORWARD,
    IKEORCH,
    PKI_FOLDER,
    TUNNELS,
    ikeorch,
    issue_certificates,
    read_block,
    start_daemons,
    wait_carrying,
)
from lab.scenarios.traffic import FlowShares, spread_flows

PICTURE = """\
   site A                      providers                       site B
 host-a1 ┐                 ┌─── isp1 5+5 ms ───┐                 ┌ host-b1
         ├ leaf-a ── gw-a ─┤                   ├─ gw-b ── leaf-b ┤
 host-a2 ┘                 └─── isp2 5+5 ms ───┘                 └ host-b2
            tunnels 0 and 2 over isp1, tunnels 1 and 3 over isp2
"""
FLOWS = 256


def certificates(lab: Lab, report: Report) -> None:
    """Step 1."""
    report.title("Our own CA issues a certificate for each gateway")
    issue_certificates(lab)
    a = lab.node("gw-a")
    report.say(a.run(["ls", "-l", CA_FOLDER, PKI_FOLDER]).stdout)
    text = a.run(["openssl", "x509", "-in", f"{PKI_FOLDER}/gw-a.pem", "-noout", "-subject", "-issuer", "-dates"]).stdout
    report.say(text)
    verified = a.run(["openssl", "verify", "-x509_strict", "-CAfile", f"{PKI_FOLDER}/ca.pem", f"{PKI_FOLDER}/gw-a.pem"])
    report.claim("certificate verifies strictly", verified.stdout.strip(), held=verified.stdout.strip().endswith("OK"))


def tunnels(lab: Lab, report: Report) -> None:
    """Step 2: one command on A, its output given to B."""
    report.title(
        "charon, the prober, ikeorchd and ExaBGP start on both gateways, FRR on the leafs; "
        "then one command on A brings up four tunnels"
    )
    start_daemons(lab)
    a, b = lab.node("gw-a"), lab.node("gw-b")
    began = time.monotonic()
    report.say(
        f"gw-a# ikeorch tunnel add gw-b --count {TUNNELS}     (waits; prints the block for the other side at once)"
    )
    with a.popen([IKEORCH, "tunnel", "add", "gw-b", "--count", str(TUNNELS)]) as adding:
        assert adding.stdout is not None
        block = read_block(adding.stdout)
        report.say(block)
        report.say("gw-b# ikeorch peer add -f -     (takes that block)")
        added = ikeorch(b, "peer", "add", "-f", "-", text=block)
        report.say(added.stderr)
        code = adding.wait(60)
    took = time.monotonic() - began
    report.claim("both commands end well", f"exit codes {code} and {added.returncode}, {took:.1f} s", held=code == 0)
    wait_carrying(lab)
    for node in (a, b):
        report.command(node, "status")


def outside(lab: Lab, report: Report) -> None:
    """Step 3: the same seen from outside the daemon."""
    report.title("The same, seen without asking ikeorch: kernel and raw VICI")
    for name in ("gw-a", "gw-b"):
        node = lab.node(name)
        found = children(node)
        links = xfrm_interfaces(node)
        if_ids = sorted(link.if_id for link in links.values())
        right = sorted(child.if_id for child in found) == if_ids and len(set(if_ids)) == TUNNELS
        measured = f"{len(found)} CHILD_SAs, interfaces with if_id {if_ids}"
        report.claim(f"{name}: one CHILD_SA in each XFRM interface", measured, held=right and len(found) == TUNNELS)
    a = lab.node("gw-a")
    report.say("gw-a# ip route show 10.2.0.0/16")
    report.say(a.run(["ip", "route", "show", "10.2.0.0/16"]).stdout)
    group = group_of(a, "10.2.0.0/16")
    members = [entry.get("weight", 1) for entry in group["group"]] if group else []
    report.claim("one weighted next-hop group", f"weights {members}", held=len(members) == TUNNELS)


def flows(lab: Lab, report: Report) -> None:
    """Step 4: the spread."""
    report.title(f"{FLOWS} TCP flows from site A to site B, and by which tunnel each goes and comes back")
    shares = spread_flows(lab, FORWARD, lab.node("gw-a"), FLOWS)
    show_shares(shares, report)
    report.claim("every flow is answered", f"{shares.answered} of {FLOWS}", held=shares.answered == FLOWS)
    for name, counts in (("there", shares.forward), ("back", shares.backward)):
        percent = [round(100 * count / FLOWS, 1) for count in counts.values()]
        held = all(15 <= share <= 35 for share in percent)
        report.claim(f"each tunnel carries 15 % to 35 % of the flows {name}", f"{percent} %", held=held)


def show_shares(shares: FlowShares, report: Report) -> None:
    """A bar a tunnel and direction."""
    for tunnel, there in shares.forward.items():
        back = shares.backward[tunnel]
        report.say(f"  {tunnel}  there {there:4d} {'#' * (there // 4):<24}  back {back:4d} {'#' * (back // 4)}")


STEPS: tuple[Callable[[Lab, Report], None], ...] = (
    certificates,
    tunnels,
    outside,
    fabric,
    flows,
    provider_dark,
    daemon_killed,
    helpers_killed,
)


def main() -> int:
    """Run the scenario; the exit code says whether everything held."""
    report = Report()
    report.say(PICTURE)
    report.title("The lab: ten nodes, each with its own network, files and name")
    try:
        with Lab.start(TWO_DC) as lab:
            report.say(", ".join(sorted(lab.nodes)))
            for step in STEPS:
                step(lab, report)
            good = report.summary()
    except (LabError, AssertionError) as error:
        report.say(f"\nThe demo stopped: {error}")
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
