"""``make demo``: the reference scenario in plain words, on a real data plane.

Two sites join over two providers with four tunnels; flows spread over them; the daemon is killed under traffic and
nothing is lost. Everything that is shown is read from the kernel, charon and the hosts, and every claim is checked:
the exit code is 0 only when all hold.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from lab.control import LabError
from lab.node import Node
from lab.runner import TWO_DC, Lab
from lab.scenarios.observe import children, group_of, guard_drops, xfrm_interfaces
from lab.scenarios.sites import (
    BACKWARD,
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
from lab.scenarios.traffic import FlowShares, captures, finish, spread_flows, streams
from lab.waiting import wait_until

PICTURE = """\
   site A                      providers                       site B
 host-a1 ┐                 ┌─── isp1 5+5 ms ───┐                 ┌ host-b1
         ├ leaf-a ── gw-a ─┤                   ├─ gw-b ── leaf-b ┤
 host-a2 ┘                 └─── isp2 5+5 ms ───┘                 └ host-b2
            tunnels 0 and 2 over isp1, tunnels 1 and 3 over isp2
"""
RATE = 500
STREAM_PACKETS = 6000
FLOWS = 256


class Report:
    """Says what happens, and remembers what was claimed and whether it held."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.results: list[tuple[str, str, bool]] = []

    def title(self, text: str) -> None:
        """A new step."""
        print(f"\n== {text}  [{time.monotonic() - self.began:.0f} s]", flush=True)

    def say(self, text: str) -> None:
        """A sentence or an output."""
        print(text.rstrip(), flush=True)

    def command(self, node: Node, *arguments: str) -> None:
        """Show a command and what it prints."""
        self.say(f"{node.name}# ikeorch {' '.join(arguments)}")
        self.say(ikeorch(node, *arguments).stdout)

    def claim(self, what: str, measured: str, *, held: bool) -> None:
        """A claim with the figure that was measured."""
        self.results.append((what, measured, held))
        self.say(f"{'ok ' if held else 'NOT'} {what}: {measured}")

    def summary(self) -> bool:
        """All claims as a table; True when all held."""
        self.title("Summary")
        width = max(len(what) for what, _, _ in self.results)
        for what, measured, held in self.results:
            self.say(f"  {'ok ' if held else 'NOT'}  {what.ljust(width)}  {measured}")
        good = all(held for _, _, held in self.results)
        self.say(f"\n{'Everything held' if good else 'Something did not hold'}, {time.monotonic() - self.began:.0f} s.")
        return good


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
    report.title("charon and ikeorchd start on both gateways; then one command on A brings up four tunnels")
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


def daemon_killed(lab: Lab, report: Report) -> None:
    """Step 5: kill -9 under traffic."""
    report.title(f"kill -9 of ikeorchd on gw-a, under {2 * RATE} packets a second (both ways, 64 flows each)")
    a = lab.node("gw-a")
    before = children(a)
    ends = ("isp1:eth1", "isp2:eth1")
    with captures(lab, ends) as running, streams(lab, (FORWARD, BACKWARD), rate=RATE, count=STREAM_PACKETS) as started:
        wait_until(lambda: time.monotonic() > report.began, "the streams run", 1)
        time.sleep(2)
        pid = a.kill("ikeorchd")
        report.say(f"kill -9 {pid}; its supervisor starts it again after a second, as systemd would")
        wait_until(lambda: a.daemons["ikeorchd"].pid not in {None, pid}, "ikeorchd runs again", 20)
        results = [stream.result() for stream in started]
        seen = {end: finish(capture) for end, capture in running.items()}
    a.wait_ready("ikeorchd", 20)
    wait_carrying(lab)
    for stream, result in zip(started, results, strict=True):
        measured = f"{result['received']} of {result['total']} arrived, {result['lost']} lost"
        whole = result["lost"] == 0 and result["total"] == STREAM_PACKETS
        report.claim(f"nothing lost {stream.direction.name}", measured, held=whole)
    after = children(a)
    same = [(c.tunnel, c.spi_in, c.spi_out) for c in before] == [(c.tunnel, c.spi_in, c.spi_out) for c in after]
    report.claim("the same SPIs before and after", f"{len(after)} CHILD_SAs", held=same)
    for end, capture in seen.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(capture["kinds"].items()))
        clear = set(capture["kinds"]) <= {"esp", "ike", "arp", "nd-mld"} and capture["magic"] == 0
        report.claim(f"only ciphertext at {end}", kinds, held=clear and capture["kinds"].get("esp", 0) > 1000)
    report.command(a, "plan")
    report.say(f"the guard's drop counters on gw-a: {guard_drops(a)}")


STEPS: tuple[Callable[[Lab, Report], None], ...] = (certificates, tunnels, outside, flows, daemon_killed)


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
