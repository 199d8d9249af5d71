"""Stand-ins for charon and the kernel, held to the real ones by tests/contract."""
