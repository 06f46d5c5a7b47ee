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
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        async with session.get(base + "/hello", proxy=proxy) as answer:
            print("get", await answer.text(), answer.status)
        async with session.post(base + "/echo", proxy=proxy, data=b"some fields") as answer:
            print("post", await answer.text(), answer.status)
        digest = hashlib.sha256()
        async with session.get(base + "/large", proxy=proxy) as answer:
            async for piece in answer.content.iter_any():
                digest.update(piece)
        print("download", digest.hexdigest())
        with open(env["UPLOAD"], "rb") as file:
            async with session.put(base + "/upload", proxy=proxy, data=file) as answer:
                print("upload", await answer.text())
        async with session.get(base + "/redirect", proxy=proxy) as answer:
            print("redirect", await answer.text(), answer.status, answer.url)
        async with session.get(env["WRONG"] + "/hello", proxy=proxy) as answer:
            print("error", answer.status, (await answer.json(content_type=None))["error"])
        context = ssl.create_default_context(cafile=env["CA"])
        async with session.get(env["INNER"] + "/hello", proxy=proxy, ssl=context) as answer:
            print("intercept", await answer.text(), answer.status)
        try:
            async with session.get(env["SECURE"] + "/hello", proxy=proxy):
                pass
        except aiohttp.ClientHttpProxyError as error:
            print("connect", error.status)


asyncio.run(main())
