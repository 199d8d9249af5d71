"""Where the gateway touches the world: charon, the kernel, probes. Each translates foreign errors once."""
