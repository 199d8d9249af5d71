"""Whether packets as large as the MTU come through a tunnel whose small probes do (D7). No I/O; time is an argument.

A path that drops large packets without a word (a black hole, RFC 2923 section 2.1) looks healthy to small probes. So
now and then a probe is padded to the tunnel's MTU. Several of them lost in a row say that packets of that size do not
come through; one answer says that they do.
"""

from __future__ import annotations

from ikeorch.core.units import Seconds

QUICK = Seconds(0.2)
"""Between two of them until the first answer, or until it is clear that there is none."""
USUAL = Seconds(1.0)
DEADLINE = Seconds(1.0)
"""One without an answer for so long is lost."""
LOSSES = 5
REMEMBERED = 16


class FullSize:
    """The full-sized probes of one tunnel with one MTU.

    Args:
        mtu: bytes of the IP packet.
        now: monotonic seconds.
    """

    __slots__ = ("_due", "_losses", "_number", "_outstanding", "fits", "mtu")

    def __init__(self, mtu: int, now: float) -> None:
        self.mtu = mtu
        self.fits: bool | None = None
        """True: one came back since the last loss in a row; False: they do not; None: not known yet."""
        self._due = now
        self._number = 0
        self._losses = 0
        self._outstanding: dict[int, float] = {}

    def next(self, now: float, *, alive: bool) -> int | None:
        """Judge what is overdue.

        Args:
            now: monotonic seconds.
            alive: small probes come back; while they do not, a loss says nothing about the size.

        Returns:
            The number of a probe to send now, None when none is due.
        """
        if not alive:
            self._outstanding.clear()
            self._losses = 0
            return None
        for number, sent in list(self._outstanding.items()):
            if now >= sent + DEADLINE:
                del self._outstanding[number]
                self._lose()
        if now < self._due:
            return None
        self._due = now + (QUICK if self.fits is None else USUAL)
        self._number += 1
        self._outstanding[self._number] = now
        if len(self._outstanding) > REMEMBERED:
            del self._outstanding[next(iter(self._outstanding))]
        return self._number

    def answered(self, number: int) -> None:
        """One came back."""
        if self._outstanding.pop(number, None) is not None:
            self._losses = 0
            self.fits = True

    def refused(self, number: int) -> None:
        """Our own kernel would not send it: it is larger than the path is known to take."""
        if self._outstanding.pop(number, None) is not None:
            self._lose()

    def _lose(self) -> None:
        self._losses += 1
        if self._losses >= LOSSES:
            self.fits = False
