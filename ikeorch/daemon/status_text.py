"""The last pass as JSON text.

It is composed once a pass: at 1,000 tunnels that takes longer than to send it, and many commands may ask in between.
"""

from __future__ import annotations

import json

from ikeorch.daemon.pass_result import PassResult
from ikeorch.daemon.views import status_view


class StatusText:
    """Remembers the text of the pass that was shown last."""

    def __init__(self) -> None:
        self._result: PassResult | None = None
        self._text = ""

    def of(self, result: PassResult, **more: object) -> str:
        """The status of a pass.

        Args:
            result: the pass.
            more: what is known now, beside it.
        """
        if result is not self._result:
            self._result, self._text = result, json.dumps(status_view(result))
        return f"{self._text[:-1]}, {json.dumps(more)[1:]}" if more else self._text
