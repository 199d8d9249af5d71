"""Peers come and go by whole lines: whatever else stands in the file stays where it is, letter by letter."""

from __future__ import annotations

import pytest

from ikeorch.config.document import parse_document
from ikeorch.config.edit import add_peer, remove_peer

BLOCK = "name: gw-z\nsite: dc-z\nuplinks:\n  - {name: isp1, addresses: [192.0.2.9]}\n"
FILES = {
    "no peers key": "schema_version: 1\ngateway: {name: gw-a}\n",
    "no peers key, no line end": "schema_version: 1",
    "empty list": "schema_version: 1\npeers: []\n",
    "empty list, comments around": "# top\npeers: []  # none yet\n\n# end\n",
    "keys behind": "peers: []\n# of the suites\nsuites: {}\n",
    "one peer": "peers:\n  - name: gw-x\n    site: dc-x\n",
    "comments everywhere": "# all peers\npeers:\n  # x\n  - name: gw-x  # here\n    # inside\n    site: dc-x\n"
    "\n  # y\n  - name: gw-y\n\n# end\n",
    "at the margin": "peers:\n- name: gw-x\n  site: dc-x\n# of the suites\nsuites: {}\n",
    "dash alone": "peers:\n  -\n    name: gw-x\n\n# end\n",
    "one line a peer": "peers:\n  - {name: gw-x, site: dc-x}\n  - {name: gw-y,\n     site: dc-y}\n# end\n",
    "no line end": "peers:\n  - name: gw-x\n    site: dc-x",
    "line ends of another system": "peers:\r\n  - name: gw-x\r\n# end\r\n",
    "a text that looks like a comment": "peers:\n  - name: gw-x\n    site: |\n      # no comment\n# end\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_peer_that_comes_and_goes_leaves_nothing(text: str) -> None:
    """All lines are there while it is, in their order; afterwards the file is as before (or has an empty list)."""
    added, name = add_peer(text, BLOCK, "file", "block")
    assert name == "gw-z"
    assert parse_document(added, "file").data["peers"][-1]["site"] == "dc-z"
    lines = iter(added.splitlines())
    missing = [line for line in text.splitlines() if not line.startswith("peers:") and line not in lines]
    assert missing == []
    after = remove_peer(added, "gw-z", "file")
    expected = text if text.endswith("\n") else f"{text}\n"
    assert after == (expected if "peers:" in text else f"{expected}peers: []\n")


@pytest.mark.parametrize("name", ["gw-x", "gw-y"])
def test_the_comments_around_a_removed_peer_stay(name: str) -> None:
    """Those of its own lines go with it."""
    text = FILES["comments everywhere"]
    after = remove_peer(text, name, "file")
    gone = {"gw-x": ["  - name: gw-x  # here", "    # inside", "    site: dc-x"], "gw-y": ["  - name: gw-y"]}[name]
    assert after.splitlines() == [line for line in text.splitlines() if line not in gone]


def test_a_list_in_brackets_is_changed_too() -> None:
    """Not by lines, but to the same end."""
    text = "# top\npeers: [{name: gw-x, site: dc-x}]\n"
    added, _ = add_peer(text, BLOCK, "file", "block")
    assert [peer["name"] for peer in parse_document(added, "file").data["peers"]] == ["gw-x", "gw-z"]
    after = remove_peer(added, "gw-x", "file")
    assert [peer["name"] for peer in parse_document(after, "file").data["peers"]] == ["gw-z"]
    assert after.startswith("# top\n")
