# SPDX-License-Identifier: Apache-2.0
"""Python's http.server with its handler for files."""
import os
import ssl
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=os.path.dirname(os.environ["SITE"]))

    def do_GET(self):
        if self.path != "/chunked":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(3):
            self.wfile.write(b"6\r\npiece \r\n")
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        if self.path == "/refuse":
            self.close_connection = True
            return self.send_error(413)
        body = self.rfile.read(length)
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def finish_request(self, request, client_address):
        # In the connection's own thread: a slow handshake holds nobody up.
        super().finish_request(context.wrap_socket(request, server_side=True), client_address)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.environ["CERTIFICATE"], os.environ["KEY"])
server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
