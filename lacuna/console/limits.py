"""What one answer of the console may cost at most, whatever is asked."""

from typing import Final

#: Connections from one address, and from all; and how long the head of a request may take to come, in seconds.
CONNECTIONS_OF_ADDRESS: Final = 64
CONNECTIONS: Final = 128
HEAD_SECONDS: Final = 5.0
#: Requests that are answered at a time, apart from event streams; others wait, and are refused after a while.
REQUESTS: Final = 8
#: How long a request may wait for its turn, and how long it may take then, in seconds.
WAIT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
#: How long an agent may take to connect and to answer a request, in seconds.
ASK_SECONDS: Final = 5.0
#: Event streams that are open at a time, and for how long each one is at most, in seconds; browsers reconnect.
STREAMS: Final = 32
STREAM_SECONDS: Final = 600.0

#: Rows of a page of a table.
ROWS: Final = 100
#: Bytes of a form, and seconds in which it must come.
FORM_BYTES: Final = 8192
FORM_SECONDS: Final = 5.0
#: Characters of a query string.
QUERY_CHARACTERS: Final = 4096

#: Partitions of which the index is held; one of 100,000 extents takes 8 MB.
VIEWS: Final = 64
#: Partitions whose sizes are asked of the control plane at a time, to sort and sum up topics.
SAMPLED_PARTITIONS: Final = 20_000
#: Pairs of a group and a partition whose lag is counted for one page.
LAGS: Final = 500
#: Committed offsets that are asked for one page of groups, and groups that are asked for at a time.
OFFSETS: Final = 20_000
GROUPS_AT_ONCE: Final = 10
#: Transactions that are described for one page, and topics in which their blame is looked up.
TRANSACTIONS: Final = 200
BLAMED_PARTITIONS: Final = 200
#: Groups whose positions are shown in a partition, and that are looked at for whom a transaction keeps waiting.
GROUPS: Final = 200

#: Ranges that a strip shows before it adds them up, and columns that it adds them up in.
RANGES: Final = 400
COLUMNS: Final = 200

#: Records on a page of messages, and bytes of the Fetch that brings them.
RECORDS: Final = 100
FETCH_BYTES: Final = 1 << 20
#: Bytes of a response, since one batch may be larger than what was asked for, and of a batch without compression.
RESPONSE_BYTES: Final = 16 << 20
BATCH_BYTES: Final = 16 << 20
#: How far a filter looks: fetches, and seconds.
SCANS: Final = 16
SCAN_SECONDS: Final = 3.0
#: Bytes of a key or value that are shown.
SHOWN_BYTES: Final = 4096
