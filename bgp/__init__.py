"""Routes for the fabric's routers and for peers, through ExaBGP in a process of its own. Never imports ikeorch.

`Speaker` (speaker.py) takes the whole wish: `Neighbor` -> `Advertisement`s. `process.py` says how ExaBGP is run. Pure
are: advertisement, link_bandwidth, rib (what is still to be told), session, peers, grammar (ExaBGP's lines),
configuration, process. I/O do: link (one conversation), conversation (who speaks), config_file, speaker, and the shim,
which ExaBGP runs and which joins its pipes to the speaker's socket.
"""
