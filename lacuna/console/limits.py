"""The bounds on the cost of one answer of the console, for any request."""

from typing import Final

#: Connections from one address, and from all; and the seconds in which the head of a request must arrive.
CONNECTIONS_OF_ADDRESS: Final = 64
CONNECTIONS: Final = 128
HEAD_SECONDS: Final = 5.0
#: Concurrent requests, without event streams. Others wait for a while, and are then rejected.
REQUESTS: Final = 8
#: The seconds that a request may wait for its turn, and the seconds that it may then take.
WAIT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
#: The seconds that an agent may take to connect, and to answer a request.
ASK_SECONDS: Final = 5.0
#: Open event streams, and the seconds after which each one ends. Browsers reconnect.
STREAMS: Final = 32
STREAM_SECONDS: Final = 600.0

#: Rows on one page of a table.
ROWS: Final = 100
#: Bytes of a form, and the seconds in which it must arrive.
FORM_BYTES: Final = 256 << 10
FORM_SECONDS: Final = 5.0
#: Characters of a query string.
QUERY_CHARACTERS: Final = 4096

#: Partitions whose index is held in memory. An index of 100,000 extents takes 8 MB.
VIEWS: Final = 64
#: Partitions whose sizes one page requests from the control plane, to sort and sum up topics.
SAMPLED_PARTITIONS: Final = 20_000
#: Pairs of a group and a partition for which one page counts the lag.
LAGS: Final = 500
#: Committed offsets that one page of groups requests, and groups in one request.
OFFSETS: Final = 20_000
GROUPS_AT_ONCE: Final = 10
#: Transactions that one page describes, and topics in which it looks for the readers that wait for them.
TRANSACTIONS: Final = 200
BLAMED_PARTITIONS: Final = 200
#: Groups whose positions a partition shows, and groups that a page checks for a wait behind a transaction.
GROUPS: Final = 200

#: Moments of the lines of the last hour, the seconds between two, and the agents of one.
MOMENTS: Final = 121
MOMENT_SECONDS: Final = 30.0
AGENTS: Final = 256

#: Ranges that a strip shows before it sums them up, and the columns of the sums.
RANGES: Final = 400
COLUMNS: Final = 200

#: Records on a page of messages, partitions that one page reads, and bytes of a Fetch.
RECORDS: Final = 100
PARTITIONS: Final = 64
FETCH_BYTES: Final = 1 << 20
#: Bytes of a response, since one batch may be larger than the request allows, and of a decompressed batch.
RESPONSE_BYTES: Final = 16 << 20
BATCH_BYTES: Final = 16 << 20
#: The bytes that a page fetches and keeps of records, and its seconds.
SCAN_BYTES: Final = 16 << 20
SCAN_SECONDS: Final = 3.0
#: The same of a search whose progress a visitor watches.
SEARCH_BYTES: Final = 1 << 30
SEARCH_SECONDS: Final = 60.0
#: Bytes that a page keeps of all keys, and of all values; bytes that it shows of a key or value among others, and of a
#: single message; characters of a closed row; headers of a message, and bytes of a header.
KEPT_BYTES: Final = 1 << 20
SHOWN_BYTES: Final = 4096
SINGLE_BYTES: Final = 256 << 10
LINE_CHARACTERS: Final = 200
HEADERS: Final = 20
HEADER_BYTES: Final = 1024
