"""charon over VICI: asyncio transport on the `vici` package's codec, typed values at the edge."""
