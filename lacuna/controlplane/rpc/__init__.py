"""gRPC over HTTP/2 on asyncio: what the control plane and its clients need of both, and no more.

    frames  bytes of HTTP/2 frames (RFC 9113)
    link    one connection, at either end: frames, flow control, pings
    call    one call on it: messages in both directions, and how it ended
    client  connects and makes calls
    server  listens and answers calls
    tls     who may connect, and how

It speaks with every other implementation of gRPC. grpcio took two fifths of the CPU of a transaction: its core runs in
a thread of its own, and each message crosses between the two several times (adr/0038).
"""
