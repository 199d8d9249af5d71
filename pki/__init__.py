"""The internal CA: profiles, issue, signer port and store.

Knows nothing of ikeorch; what it signs, any IKEv2 daemon reads.
"""
