"""An HTTP server on loopback that takes many connections at once."""

from http.server import ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    """Serves each connection in a thread that ends with the program."""

    daemon_threads = True
    request_queue_size = 128
    """With the library's 5, Linux answers a burst of connections with SYN cookies, and resets some of them."""
