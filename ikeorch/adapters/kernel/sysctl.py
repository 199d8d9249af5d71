"""Kernel settings under /proc/sys."""

from __future__ import annotations

import errno
from pathlib import Path

from ikeorch.core.kernel_state import Sysctl
from ikeorch.errors import KernelError, KernelFeatureError, NotPermittedError

ROOT = Path("/proc/sys")


def setting_path(name: str) -> Path:
    """The file of a setting; in sysctl's spelling a ``/`` inside a component stands for a dot.

    Raises:
        ValueError: a name that would leave /proc/sys.
    """
    parts = [part.replace("/", ".") for part in name.split(".")]
    if not all(parts) or any(part in {".", ".."} for part in parts):
        raise ValueError(f"{name!r} is no kernel setting")
    return ROOT.joinpath(*parts)


def read_setting(name: str) -> Sysctl | None:
    """The setting as it is, None where the kernel does not have it.

    Raises:
        KernelError: it cannot be read.
    """
    try:
        value = setting_path(name).read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KernelError(f"sysctl {name} cannot be read: {error.strerror}") from None
    return Sysctl(name=name, value=" ".join(value.split()))


def write_setting(setting: Sysctl) -> None:
    """Set it; one that this kernel lacks and that is not required is left out.

    Raises:
        KernelFeatureError: the kernel lacks a required one.
        NotPermittedError: it may not be written.
        KernelError: the kernel refuses the value.
    """
    path = setting_path(setting.name)
    try:
        with path.open("w", encoding="ascii") as file:
            file.write(setting.value)
    except FileNotFoundError:
        if setting.required:
            hint = "if it is an interface's, the interface is missing; else a newer kernel is needed"
            raise KernelFeatureError(f"there is no sysctl {setting.name}", hint=hint) from None
    except OSError as error:
        if error.errno in {errno.EPERM, errno.EACCES, errno.EROFS}:
            hint = "run the daemon as root, with /proc/sys writable"
            raise NotPermittedError(f"sysctl {setting.name} may not be written", hint=hint) from None
        raise KernelError(f"sysctl {setting.name}={setting.value} is refused: {error.strerror}") from None
