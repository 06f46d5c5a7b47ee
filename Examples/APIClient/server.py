#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service that the example uses: server.py CERTIFICATE KEY

It prints its port, a free one of the loopback address. Access tokens hold for six requests, downloads break off once, and so do events.
"""

import base64
import email
import email.policy
import hashlib
import http.server
import json
import ssl
import struct
import sys
import threading

CONTENT = {f"file{number}": bytes([number]) * (200_000 + number) for number in range(1, 6)}
lock = threading.Lock()
notes = {number: {"id": number, "title": f"note {number}", "is_done": number % 2 == 0} for number in range(1, 8)}
state = {"token": 0, "uses": 0, "cut": set(), "refreshes": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status, value=None):
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if content:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def is_allowed(self):
        with lock:
            # A WebSocket is opened with the token that there is.
            state["uses"] += 0 if self.path.endswith("/conversation") else 1
            allowed = self.headers.get("Authorization") == f"Bearer t{state['token']}" and state["uses"] <= 6
        if not allowed:
            self.body()
            self.send(401, {"message": "The token has expired."})
        return allowed

    def new_token(self):
        with lock:
            state["token"] += 1
            state["uses"] = 0
            return {"access_token": f"t{state['token']}", "refresh_token": f"r{state['token']}"}

    def do_POST(self):
        if self.path == "/v1/login":
            given = json.loads(self.body())
            if given == {"name": "ada", "password": "lovelace"}:
                return self.send(200, self.new_token())
            return self.send(403, {"message": "No such user, or another password."})
        if self.path == "/v1/token":
            given = json.loads(self.body())
            if given != {"refresh_token": f"r{state['token']}"}:
                return self.send(403, {"message": "Log in again."})
            state["refreshes"] += 1
            return self.send(200, self.new_token())
        if not self.is_allowed():
            return None
        if self.path == "/v1/notes":
            note = {"id": len(notes) + 1, **json.loads(self.body())}
            notes[note["id"]] = note
            return self.send(201, note)
        if self.path.endswith("/attachments"):
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            form = email.message_from_bytes(head + self.body(), policy=email.policy.HTTP)
            parts = {part.get_param("name", header="Content-Disposition"): part for part in form.iter_parts()}
            file = parts["file"]
            assert parts["comment"].get_payload(decode=True) == b"from a program"
            return self.send(201, {"file_name": file.get_filename(), "byte_count": len(file.get_payload(decode=True))})
        return self.send(404, {"message": "There is no such thing."})

    def do_DELETE(self):
        if self.is_allowed():
            gone = notes.pop(int(self.path.rsplit("/", 1)[1]), None)
            self.send(204 if gone else 404)

    def do_GET(self):
        if not self.is_allowed():
            return
        path, _, query = self.path.partition("?")
        if path == "/v1/notes":
            page = int(query.removeprefix("page="))
            items = list(notes.values())[3 * page - 3 : 3 * page]
            self.send(200, {"items": items, "next_page": page + 1 if 3 * page < len(notes) else None})
        elif path.startswith("/v1/files/"):
            self.file(path.rsplit("/", 1)[1])
        elif path == "/v1/changes":
            self.changes()
        elif path.endswith("/conversation"):
            self.conversation()
        else:
            self.send(404, {"message": "There is no such thing."})

    def file(self, name):
        content = CONTENT[name]
        tag = f'"{name}"'
        start = 0
        if "Range" in self.headers and self.headers.get("If-Range", tag) == tag:
            start = int(self.headers["Range"].removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("ETag", tag)
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if name not in state["cut"]:
            state["cut"].add(name)
            self.wfile.write(content[:100_000])
            self.close_connection = True
            return
        self.wfile.write(content[start:])

    def changes(self):
        last = int(self.headers.get("Last-Event-ID", 0))
        if last == 4:
            return self.send(204)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(b"retry: 10\n\n")
        kinds = ["added", "changed", "changed", "removed"]
        # Two for each connection.
        for number in range(last + 1, last + 3):
            data = json.dumps({"note_id": number, "kind": kinds[number - 1]})
            self.chunk(f"id: {number}\ndata: {data}\n\n".encode())
        self.chunk(b"")

    def chunk(self, content):
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def conversation(self):
        """RFC 6455, for short messages."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("Sec-WebSocket-Protocol", "text")
        self.end_headers()
        self.close_connection = True
        while True:
            first, length = struct.unpack("!BB", self.rfile.read(2))
            mask = self.rfile.read(4)
            content = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rfile.read(length & 0x7F)))
            if first & 0x0F == 8:
                self.wfile.write(bytes([0x88, len(content)]) + content)
                return
            reply = b"you say " + content
            self.wfile.write(bytes([0x81, len(reply)]) + reply)


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, certificate, key):
        super().__init__(("127.0.0.1", 0), Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)

    def finish_request(self, request, client_address):
        # In the thread of the connection.
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request, client_address):
        pass


server = Server(sys.argv[1], sys.argv[2])
print(server.server_address[1], flush=True)
server.serve_forever()
