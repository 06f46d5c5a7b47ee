# SPDX-License-Identifier: Apache-2.0
"""Appends what comes over the connections of a listening socket to a file: line_sink.py DESCRIPTOR FILE."""
import socket
import sys

listener = socket.socket(fileno=int(sys.argv[1]))
with open(sys.argv[2], "ab", buffering=0) as file:
    while True:
        client, _ = listener.accept()
        with client:
            while True:
                data = client.recv(1 << 20)
                if not data:
                    break
                file.write(data)
