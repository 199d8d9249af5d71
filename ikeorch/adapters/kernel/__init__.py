"""The kernel over netlink, /proc/sys and nftables."""
