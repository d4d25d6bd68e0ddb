"""How many elements of a request are handled at once, so that other requests are served in between."""

from typing import Final

#: The elements of the arrays of a request that is handled whole, unless its API takes another number.
MOST_WHOLE: Final = 10_000
#: The elements of a piece of a larger request.
MOST_OF_PIECE: Final = 500
