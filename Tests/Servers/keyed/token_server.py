# SPDX-License-Identifier: Apache-2.0
"""An authorisation server (RFC 6749, section 4.4) and an API that takes its tokens (RFC 6750), both made with authlib."""
import os
import time

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6750 import BearerTokenValidator
from flask import Flask, jsonify, request
from werkzeug.serving import WSGIRequestHandler, make_server

WAY = "client_secret_" + {"header": "basic", "body": "post"}[os.environ["SECRET_IN"]]
tokens = {}


class Client(ClientMixin):
    def check_client_secret(self, client_secret):
        return client_secret == os.environ["VALUE"]

    def check_endpoint_auth_method(self, method, endpoint):
        return endpoint == "token" and method == WAY

    def check_grant_type(self, grant_type):
        return grant_type == "client_credentials"

    def get_allowed_scope(self, scope):
        return " ".join(word for word in (scope or "").split() if word in ("contacts.read", "contacts.write"))

    def get_client_id(self):
        return "reports"


class Token(TokenMixin):
    def __init__(self, token):
        self.token, self.made = token, time.monotonic()

    def is_expired(self):
        return time.monotonic() > self.made + self.token["expires_in"]

    def is_revoked(self):
        return False

    def get_scope(self):
        return self.token["scope"]


class Grant(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = [WAY]


class Validator(BearerTokenValidator):
    def authenticate_token(self, token_string):
        return tokens.get(token_string)


app = Flask(__name__)
app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {"client_credentials": 600}
server = AuthorizationServer(app, query_client=lambda name: Client() if name == "reports" else None,
                             save_token=lambda token, _: tokens.update({token["access_token"]: Token(token)}))
server.register_grant(Grant)
protector = ResourceProtector()
protector.register_token_validator(Validator())


@app.route("/oauth2/token", methods=["POST"])
def token():
    # No grant of RFC 6749 asks for it; authorisation servers of APIs do.
    if request.form.get("audience") != "https://crm.example.com":
        return jsonify(error="invalid_request"), 400
    return server.create_token_response()


@app.route("/v1/x", methods=["GET", "POST", "PUT"])
@protector("contacts.read")
def api():
    return f"{request.method} {request.get_data(as_text=True)}"


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def make_environ(self):
        # TLS ends before this server.
        return super().make_environ() | {"wsgi.url_scheme": "https"}

    def log_request(self, *_):
        pass


serving = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
print(serving.server_port, flush=True)
serving.serve_forever()
