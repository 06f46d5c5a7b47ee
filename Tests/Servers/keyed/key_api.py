# SPDX-License-Identifier: Apache-2.0
"""Takes requests with the right value of one field, whose body it sends back."""
import os

import plain_server


class Handler(plain_server.Handler):
    def do_POST(self):
        body = self.body()
        if self.headers.get_all(os.environ["FIELD"], []) != [os.environ["VALUE"]]:
            return self.respond(401, b"no key", WWW_Authenticate="Bearer")
        self.respond(200, self.command.encode() + b" " + body)

    do_GET = do_PUT = do_POST


plain_server.serve(Handler)
