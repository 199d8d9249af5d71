"""ikeorch: parallel route-based IKEv2 tunnels between datacentre gateways."""

__version__ = "0.1.0"
