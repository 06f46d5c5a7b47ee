# SPDX-License-Identifier: Apache-2.0
# With keys of its own that nobody knows.
import os

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


def client(service, **more):
    config = Config(proxies={"http": os.environ["PROXY"]}, retries={"total_max_attempts": 1}, **more)
    return boto3.client(service, endpoint_url=os.environ["BASE"], region_name="nowhere", aws_access_key_id="placeholder",
                        aws_secret_access_key="placeholder", config=config)


def attempt(work):
    try:
        print(work())
    except ClientError as error:
        print("refused", error.response["ResponseMetadata"]["HTTPStatusCode"])


if os.environ["SERVICE"] == "s3":
    store = client("s3", s3={"addressing_style": "path"})
    body = b"an object " * 20_000
    # Characters that signatures encode, each in its own way.
    name = "a name/with ~ and ü+.txt"
    attempt(lambda: store.put_object(Bucket="bucket", Key=name, Body=body) and "stored")
    attempt(lambda: "the same object" if store.get_object(Bucket="bucket", Key=name)["Body"].read() == body else "another object")
else:
    # Longer than the first window of HTTP/2: the body is signed as a whole.
    item = {"id": {"S": "1"}, "text": {"S": "written " * 20_000}}
    table = client("dynamodb")
    attempt(lambda: table.put_item(TableName="table", Item=item) and "stored")
    attempt(lambda: "the same item" if table.get_item(TableName="table", Key={"id": {"S": "1"}})["Item"] == item else "another item")
