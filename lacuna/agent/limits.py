"""How many elements of a request are handled in one step. Other requests are served between the steps."""

from typing import Final

#: The maximum number of elements in the arrays of a request that is handled whole, unless its API sets another number.
MOST_WHOLE: Final = 10_000
#: The number of elements in one piece of a larger request.
MOST_OF_PIECE: Final = 500
