"""Elements of a Python semiring as values of a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calitree.errors import ExpressionError, cut

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class PythonValue:
    """How an element becomes a value: by a function, in an Arrow type; as it is if there is neither."""

    final: Callable[[Any], Any] | None
    returns: pa.DataType | None

    def array(self, measure: str, elements: Sequence[Any]) -> pa.Array:
        """A column of a result."""
        import pyarrow as pa

        values = [self._value(measure, element) for element in elements]
        try:
            return pa.array(values, self.returns)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            shown = next((repr(value) for value in values if value is not None), "")
            wanted = "one Arrow type" if self.returns is None else f"Arrow's {self.returns}"
            raise ExpressionError(
                f"The values of measure {measure!r}, such as {cut(shown)}, are not of {wanted}: {error}. "
                "Let final= return numbers, texts, or lists and dictionaries of them, and say which Arrow "
                "type that is with returns=."
            ) from error

    def _value(self, measure: str, element: Any) -> Any:
        if self.final is None:
            return element
        try:
            return self.final(element)
        except Exception as error:
            raise ExpressionError(
                f"final= of measure {measure!r} raised {type(error).__name__} for {cut(repr(element))}: {error}"
            ) from error
