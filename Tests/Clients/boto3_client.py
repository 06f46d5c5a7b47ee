# SPDX-License-Identifier: Apache-2.0
# S3: objects of a bucket, by path-style URLs.
import hashlib
import os

import boto3
import botocore.exceptions
from botocore.config import Config

env = os.environ


def store(proxy, url=env["BASE"]):
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="nowhere",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        verify=env["CA"],
        config=Config(
            proxies={"http": proxy, "https": proxy},
            proxies_config={"proxy_ca_bundle": env["CA"]},
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
        ),
    )


def get(client, key="hello", **more):
    return client.get_object(Bucket="bucket", Key=key, **more)["Body"].read()


def refusal(client):
    try:
        return get(client).decode()
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    except botocore.exceptions.ProxyConnectionError:
        return "refused"


client = store(env["PROXY"])
print("get", get(client).decode(), 200)
known = env["AUTH_PROXY"].replace("://", "://user:password@")
print("auth", refusal(store(env["AUTH_PROXY"])), {"hello": 200}.get(refusal(store(known))))
print("download", hashlib.sha256(get(client, "large")).hexdigest())
with open(env["PART"], "rb") as file:
    part = file.read()
print("resume", hashlib.sha256(part + get(client, "large", Range=f"bytes={len(part)}-")).hexdigest())
# With Expect: 100-continue.
with open(env["UPLOAD"], "rb") as file:
    print("upload", client.put_object(Bucket="bucket", Key="upload", Body=file)["ETag"].strip('"'))
print("error", refusal(store(env["PROXY"], env["WRONG"])))
for number in ("1", "2"):
    get(client, f"keep/{env['NAME']}/{number}")
print("keep done")
print("intercept", get(store(env["PROXY"], env["INNER"])).decode(), 200)
print("connect", refusal(store(env["PROXY"], env["SECURE"])))
print("gateway", get(store(None, env["GATEWAY"])).decode(), 200)
print("tls", get(store(env["TLS_PROXY"])).decode(), 200)
