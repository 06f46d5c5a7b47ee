# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import socket
import ssl
import urllib.parse

import websockets

env = os.environ
# Version 15 would take the proxy by itself.
for name in ("http_proxy", "https_proxy"):
    env.pop(name, None)


async def echo(url, **settings):
    async with websockets.connect(url + "/socket", **settings) as opened:
        await opened.send("hello")
        return await opened.recv()


def tunnel(host, port):
    # Version 10, Debian 12's, knows no proxy: it takes a socket.
    proxy = urllib.parse.urlsplit(env["PROXY"])
    made = socket.create_connection((proxy.hostname, proxy.port), 30)
    made.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += made.recv(1)
    made.settimeout(None)
    return made


async def main():
    host = urllib.parse.urlsplit(env["INNER"]).hostname
    context = ssl.create_default_context(cafile=env["CA"])
    print("socket", await echo(f"ws://{host}", sock=tunnel(host, 80)))
    print("secureSocket", await echo(f"wss://{host}", sock=tunnel(host, 443), ssl=context, server_hostname=host))
    address = env["GATEWAY"].replace("http", "ws", 1)
    gateway = urllib.parse.urlsplit(address)
    print("gateway", await echo(address, sock=socket.create_connection((gateway.hostname, gateway.port))))


asyncio.run(main())
