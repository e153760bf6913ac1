"""What runs graphs: a protocol, so that one runtime can be held against another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Evaluator(Protocol):
    """A graph that is ready to run.

    Values are arrays (ml_dtypes for the types that numpy lacks, ``object`` for strings), lists for sequences, None for an absent optional.
    """

    @property
    def input_names(self) -> list[str]:
        """The names of the graph's inputs, in order."""

    @property
    def output_names(self) -> list[str]:
        """The names of the graph's outputs, in order."""

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """Compute outputs.

        Args:
            feeds: a value for every input that has no default, by name.
            outputs: which outputs; None for all.

        Returns:
            The values by name.

        Raises:
            EvaluationError: the graph cannot be run on these.
        """
