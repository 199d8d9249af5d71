"""Where routes will be announced to the fabric and to peers, through ExaBGP. Never imports ikeorch.

Empty but for this text: the gateway's first version routes by static prefixes (CHANGELOG.md).
"""
