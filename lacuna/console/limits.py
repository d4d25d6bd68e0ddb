"""Limits on the resources that the console spends on a request."""

from typing import Final

#: Connections from one address, and in total; and the seconds within which the head of a request must arrive.
CONNECTIONS_OF_ADDRESS: Final = 64
CONNECTIONS: Final = 128
HEAD_SECONDS: Final = 5.0
#: Concurrent requests, not counting event streams. Further requests wait for a while and are then rejected.
REQUESTS: Final = 8
#: The seconds that a request may wait for its turn, and the seconds that it may take afterwards.
WAIT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
#: The seconds that connecting to an agent may take, and that each of its responses may take.
ASK_SECONDS: Final = 5.0
#: Open event streams, and the seconds after which each one ends. Browsers reconnect.
STREAMS: Final = 32
STREAM_SECONDS: Final = 600.0

#: Rows on one page of a table.
ROWS: Final = 100
#: Bytes in a form, and the seconds within which the form must arrive.
FORM_BYTES: Final = 256 << 10
FORM_SECONDS: Final = 5.0
#: Characters in a query string.
QUERY_CHARACTERS: Final = 4096

#: Partitions whose index is held in memory. An index of 100,000 extents takes 8 MB.
VIEWS: Final = 64
#: Partitions whose sizes one page requests from the control plane, to sort and sum up topics.
SAMPLED_PARTITIONS: Final = 20_000
#: Pairs of a group and a partition for which one page counts the lag.
LAGS: Final = 500
#: Committed offsets that one page about groups requests, and groups in one request.
OFFSETS: Final = 20_000
GROUPS_AT_ONCE: Final = 10
#: Transactions that one page describes, and topics in which the page looks for readers that wait for them.
TRANSACTIONS: Final = 200
BLAMED_PARTITIONS: Final = 200
#: Groups whose positions a partition's page shows, and groups that a page checks for waiting behind a transaction.
GROUPS: Final = 200

#: Moments on the charts of the last hour, the seconds between two of them, and the agents in each.
MOMENTS: Final = 121
MOMENT_SECONDS: Final = 30.0
AGENTS: Final = 256

#: Ranges that a strip shows before it sums them up, and the columns into which it sums them.
RANGES: Final = 400
COLUMNS: Final = 200

#: Records on a page of messages, partitions that one page reads, and bytes in a Fetch.
RECORDS: Final = 100
PARTITIONS: Final = 64
FETCH_BYTES: Final = 1 << 20
#: Bytes of a response, since one batch may be larger than the request allows, and of a decompressed batch.
RESPONSE_BYTES: Final = 16 << 20
BATCH_BYTES: Final = 16 << 20
#: The bytes of records that a page fetches and keeps, and the seconds that it may take.
SCAN_BYTES: Final = 16 << 20
SCAN_SECONDS: Final = 3.0
#: The same bounds for a search whose progress a visitor watches.
SEARCH_BYTES: Final = 1 << 30
SEARCH_SECONDS: Final = 60.0
#: Bytes of all keys, and of all values, that a page keeps; bytes of a key or value that it shows in a list, and for a
#: single message; characters in a closed row; headers of a message, and bytes of a header.
KEPT_BYTES: Final = 1 << 20
SHOWN_BYTES: Final = 4096
SINGLE_BYTES: Final = 256 << 10
LINE_CHARACTERS: Final = 200
HEADERS: Final = 20
HEADER_BYTES: Final = 1024
