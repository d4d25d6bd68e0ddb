"""The number of elements of a request that are handled at once, so that other requests are served in between."""

from typing import Final

#: The most elements in the arrays of a request that is handled whole, unless its API sets another number.
MOST_WHOLE: Final = 10_000
#: The elements of one piece of a larger request.
MOST_OF_PIECE: Final = 500
