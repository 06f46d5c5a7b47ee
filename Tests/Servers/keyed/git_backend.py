# SPDX-License-Identifier: Apache-2.0
"""Git's smart HTTP: git-http-backend as a CGI program (RFC 3875), for one user with a password."""
import base64
import os
import subprocess

import plain_server

KNOWN = "Basic " + base64.b64encode(f"{os.environ['BASIC_USER']}:{os.environ['VALUE']}".encode()).decode()


class Handler(plain_server.Handler):
    def do_POST(self):
        body = self.body()
        if self.headers.get_all("Authorization", []) != [KNOWN]:
            return self.respond(401, b"no key", WWW_Authenticate='Basic realm="git"')
        path, _, query = self.path.partition("?")
        variables = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": os.environ["SITE"], "GIT_HTTP_EXPORT_ALL": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": os.environ["SITE"], "REMOTE_USER": os.environ["BASIC_USER"], "REMOTE_ADDR": "127.0.0.1", "GATEWAY_INTERFACE": "CGI/1.1",
            "SERVER_PROTOCOL": "HTTP/1.1", "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
        }
        for name, value in self.headers.items():
            if name.lower() in ("content-encoding", "git-protocol"):
                variables["HTTP_" + name.upper().replace("-", "_")] = value
        done = subprocess.run(["git", "http-backend"], input=body, env=variables, stdout=subprocess.PIPE, check=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.respond(int(fields.pop("Status", "200").split()[0]), rest, **fields)

    do_GET = do_POST


plain_server.serve(Handler)
