"""The kernel that a lab runs on: the host's own where it can do everything, else user-mode Linux."""
