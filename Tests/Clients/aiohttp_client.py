# SPDX-License-Identifier: Apache-2.0
import asyncio
import hashlib
import os
import ssl

import aiohttp

env = os.environ
base = env["BASE"]
proxy = env["PROXY"]


async def main():
    timeout = aiohttp.ClientTimeout(total=30)
    context = ssl.create_default_context(cafile=env["CA"])
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:

        async def ask(method, url, proxy=proxy, **more):
            async with session.request(method, url, proxy=proxy, ssl=context, **more) as answer:
                return answer.status, await answer.read(), answer

        async def tell(action, method, url, proxy=proxy, **more):
            status, body, answer = await ask(method, url, proxy, **more)
            print(action, body.decode(), *([status, answer.url] if action == "redirect" else [status]))

        await tell("get", "GET", base + "/hello")
        await tell("post", "POST", base + "/echo", data=b"some fields")
        refused, _, _ = await ask("GET", base + "/hello", env["AUTH_PROXY"])
        login = aiohttp.BasicAuth("user", "password")
        known, _, _ = await ask("GET", base + "/hello", env["AUTH_PROXY"], proxy_auth=login)
        print("auth", refused, known)
        digest = hashlib.sha256()
        async with session.get(base + "/large", proxy=proxy) as answer:
            async for piece in answer.content.iter_any():
                digest.update(piece)
        print("download", digest.hexdigest())
        with open(env["PART"], "rb") as file:
            part = file.read()
        _, rest, _ = await ask("GET", base + "/large", headers={"Range": f"bytes={len(part)}-"})
        print("resume", hashlib.sha256(part + rest).hexdigest())
        with open(env["UPLOAD"], "rb") as file:
            _, body, _ = await ask("PUT", base + "/upload", data=file)
            print("upload", body.decode())
        await tell("redirect", "GET", base + "/redirect")
        async with session.get(env["WRONG"] + "/hello", proxy=proxy) as answer:
            print("error", answer.status, (await answer.json(content_type=None))["error"])
        for action, url in (("socket", base), ("secureSocket", env["INNER"])):
            url = url.replace("http", "ws", 1) + "/socket"
            async with session.ws_connect(url, proxy=proxy, ssl=context) as socket:
                await socket.send_str("hello")
                print(action, await socket.receive_str())
        await tell("intercept", "GET", env["INNER"] + "/hello")
        try:
            await ask("GET", env["SECURE"] + "/hello")
        except aiohttp.ClientHttpProxyError as error:
            print("connect", error.status)
        await tell("gateway", "GET", env["GATEWAY"] + "/hello", None)
        await tell("tls", "GET", base + "/hello", env["TLS_PROXY"])


asyncio.run(main())
