"""Probes through each tunnel: STAMP (RFC 8762), sent, reflected and matched, with the tunnel's name in each packet."""
