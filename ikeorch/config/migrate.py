"""From an older ``schema_version`` to this one: a chain of pure functions, one a step.

A new version of the format adds one entry to `MIGRATIONS` (from the version before it), changes `CURRENT`, and the
`Literal` in `ikeorch.config.schema`. A migration takes and returns the plain data of the file; it must take whatever
stands there, for the shape is checked after it, and must leave every entry of a list where it is, so that an error
still names the right line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Data = dict[str, Any]
Migration = Callable[[Data], Data]

CURRENT = 1
"""The version that this program writes."""

MIGRATIONS: dict[int, Migration] = {}
"""By the version that a migration starts from."""


class VersionError(ValueError):
    """A version that cannot be read; the text is reason and hint, parted by ``; ``."""


def migrate(data: Data) -> tuple[Data, int]:
    """Bring data to the current version.

    Args:
        data: with ``schema_version``; one that is missing or no number is left for the check of the shape.

    Returns:
        The data of the current version, and the version that it was written for.

    Raises:
        VersionError: it is newer than `CURRENT`, or no migration begins there.
    """
    version = data.get("schema_version")
    if type(version) is not int:
        return data, CURRENT
    if version > CURRENT:
        raise VersionError(f"written for schema_version {version}, this ikeorch knows {CURRENT}; upgrade ikeorch")
    for step in range(version, CURRENT):
        migration = MIGRATIONS.get(step)
        if migration is None:
            known = ", ".join(str(each) for each in sorted({*MIGRATIONS, CURRENT}))
            raise VersionError(f"version {step} is none that this ikeorch reads; it knows {known}")
        data = {**migration(data), "schema_version": step + 1}
    return data, version
