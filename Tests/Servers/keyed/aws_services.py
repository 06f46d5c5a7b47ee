# SPDX-License-Identifier: Apache-2.0
"""S3 and DynamoDB as far as the clients ask for them. Signatures are made once more, by botocore, and compared.

Only the fields that are named as signed count, as with AWS; the digest of the body is compared with the body.
"""
import datetime
import hashlib
import json
import os
import re
import urllib.parse

import plain_server
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

FORM = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})")
objects = {}


class Handler(plain_server.Handler):
    def refusal(self, body):
        """Why the request is not signed as it has to be; nothing if it is."""
        given = FORM.fullmatch(self.headers.get("Authorization", ""))
        if not given:
            return "no signature"
        key, date, region, service, signed, signature = given.groups()
        if (key, region) != (os.environ["ACCESS_KEY"], os.environ["REGION"]):
            return f"an unknown key or region: {key} {region}"
        time = self.headers["X-Amz-Date"]
        signed_at = datetime.datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if time[:8] != date or abs((datetime.datetime.now(datetime.timezone.utc) - signed_at).total_seconds()) > 300:
            return f"another time: {time}"
        if self.headers.get("X-Amz-Security-Token") != os.environ["SESSION_TOKEN"]:
            return "no session token"
        names = signed.split(";")
        must = {"host"} | {name.lower() for name in self.headers if name.lower().startswith("x-amz-")}
        if names != sorted(names) or not must <= set(names):
            return f"not signed: {must - set(names)}"
        digest = self.headers.get("X-Amz-Content-SHA256", "")
        if digest and digest != "UNSIGNED-PAYLOAD" and digest != hashlib.sha256(body).hexdigest():
            return "another body"
        host = self.headers["Host"]
        request = AWSRequest(method=self.command, url=f"https://{host}{self.path}", data=body,
                             headers={name: ",".join(self.headers.get_all(name)) for name in names if name != "host"})
        request.context["timestamp"] = time
        credentials = Credentials(os.environ["ACCESS_KEY"], os.environ["SECRET_KEY"], os.environ["SESSION_TOKEN"])
        signer = (S3SigV4Auth if service == "s3" else SigV4Auth)(credentials, service, region)
        expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        return "" if signature == expected else "another signature"

    def do_POST(self):
        body = self.body()
        if refusal := self.refusal(body):
            text = f"<Error><Code>SignatureDoesNotMatch</Code><Message>{refusal}</Message></Error>".encode()
            return self.respond(403, text, Content_Type="application/xml")
        if "X-Amz-Target" in self.headers:
            return self.respond(200, self.item(json.loads(body)), Content_Type="application/x-amz-json-1.0")
        path = urllib.parse.urlsplit(self.path).path
        if self.command == "PUT":
            objects[path] = body
            return self.respond(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        if path not in objects:
            return self.respond(404)
        self.respond(200, objects[path], ETag=f'"{hashlib.md5(objects[path]).hexdigest()}"', Content_Type="text/plain")

    do_GET = do_PUT = do_HEAD = do_POST

    def item(self, request):
        kind = self.headers["X-Amz-Target"].split(".")[1]
        if kind == "PutItem":
            objects[request["Item"]["id"]["S"]] = request["Item"]
            return b"{}"
        return json.dumps({"Item": objects[request["Key"]["id"]["S"]]}).encode()


plain_server.serve(Handler)
