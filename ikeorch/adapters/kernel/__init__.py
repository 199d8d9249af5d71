"""The kernel over netlink, /proc/sys and nftables: snapshot of what is ours, and one object at a time put or removed."""
