"""Many TCP flows from one host to another, opened and held together: ``flows serve`` and ``flows open``."""

from __future__ import annotations

import argparse
import asyncio
import json
import resource

REQUEST = b"flow\n"
MAX_FLOWS = 4096


async def serve(address: str, port: int) -> None:
    """Answer each request line with itself, until killed."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, address, port, backlog=MAX_FLOWS)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


async def open_flows(address: str, port: int, count: int) -> int:
    """Open flows, exchange one line over each while all are open, and close them.

    Returns:
        How many exchanged their line.
    """
    streams = await asyncio.gather(*(asyncio.open_connection(address, port) for _ in range(count)))

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(REQUEST)
        return await reader.readline() == REQUEST

    answered = await asyncio.gather(*(exchange(reader, writer) for reader, writer in streams))
    for _, writer in streams:
        writer.close()
    return sum(answered)


def main() -> None:
    """Run one end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("serve", "open"))
    parser.add_argument("address")
    parser.add_argument("--port", type=int, default=5001)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--timeout", type=float, default=30.0)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MAX_FLOWS * 2), hard))
    if arguments.mode == "serve":
        asyncio.run(serve(arguments.address, arguments.port))
        return
    count = min(arguments.count, MAX_FLOWS)

    async def bounded() -> int:
        async with asyncio.timeout(arguments.timeout):
            return await open_flows(arguments.address, arguments.port, count)

    print(json.dumps({"asked": count, "answered": asyncio.run(bounded())}))


if __name__ == "__main__":
    main()
