"""An HTTP server on loopback that takes many connections at once and delays no answer."""

import socket
from http.server import ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    """Serves each connection in a thread that ends with the program."""

    daemon_threads = True
    request_queue_size = 128
    """With the library's 5, Linux answers a burst of connections with SYN cookies, and resets some of them."""

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection; what is written to it is sent at once. An answer in two parts, its head and its body,
        would otherwise take 40 ms."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address
