// SPDX-License-Identifier: Apache-2.0
import Foundation
import ServerTrust
import TestSupport
import Testing

/// A real client that has no key, with a server that asks for one; pinproxy has it.
struct KeylessClient: Sendable, CustomTestStringConvertible {
    /// A server in the clear behind a TLS front that counts its bytes.
    struct Server: Sendable {
        /// In Tests/Servers/keyed.
        let script: String
        var environment: [String: String] = [:]
        /// It serves a repository of git.
        var hasRepository = false
        /// What it says to requests without a key, as the client tells it.
        var refusal = "401"
    }

    let name: String
    /// What runs the script; a script without one runs by itself.
    var program: String? = RealPeers.python
    /// In Tests/Clients/keyless.
    let script: String
    /// A command that succeeds where what client and server need is there.
    var needs: String?
    let server: Server
    /// For the table: what the server is, what pinproxy has, and what the client has.
    let words: (server: String, source: String, client: String)
    /// The credential in JSON.
    let credential: String
    /// The file `secret` in the folder of the configuration.
    let secret: String
    /// What the client has in the key's place.
    var placeholder = ""
    /// Further conditions of the rule.
    var rule: [String: [String]] = [:]
    var environment: [String: String] = [:]
    /// The lines that it prints when it is served; refused, it prints `refused` and the status.
    let hears: [String]

    var testDescription: String { name }

    // MARK: The clients

    /// In no environment, argument or file of a client.
    static let key = "planted-key-0123456789"
    private static let placeholder = "agent-key-1"
    private static let accessKey = "AKIAPLANTED0000001"
    private static let region = "eu-central-1"
    private static let session = "planted//session=="
    /// Of the token server, with characters that the form has to encode.
    private static let clientSecret = "planted: secret%+&="

    private static let api = Server(script: "key_api.py", environment: ["FIELD": "x-api-key", "VALUE": key])
    private static let bearerAPI = Server(
        script: "key_api.py",
        environment: ["FIELD": "Authorization", "VALUE": "Bearer \(key)"]
    )
    private static let git = Server(
        script: "git_backend.py",
        environment: ["BASIC_USER": "x-access-token", "VALUE": key],
        hasRepository: true
    )
    private static let gitPaths = [
        "method": ["GET", "POST"], "path": ["/*/info/refs", "/*/git-upload-pack", "/*/git-receive-pack"],
    ]

    private static func aws(refusal: String) -> Server {
        let variables = [
            "ACCESS_KEY": accessKey, "SECRET_KEY": key, "SESSION_TOKEN": session, "REGION": region,
        ]
        return Server(script: "aws_services.py", environment: variables, refusal: refusal)
    }

    private static func signing(_ service: String) -> String {
        #"{"awsSigV4": {"region": "\#(region)", "service": "\#(service)", "file": "secret"}}"#
    }

    private static let awsKeys = """
        {"Version": 1, "AccessKeyId": "\(accessKey)", "SecretAccessKey": "\(key)", "SessionToken": "\(session)",
         "Expiration": "2099-01-01T00:00:00Z"}
        """

    private static func oauth(_ secretIn: String, _ secret: String) -> KeylessClient {
        KeylessClient(
            name: "Python urllib, secret in the \(secretIn)",
            script: "urllib_client.py",
            needs: "\(RealPeers.python) -c 'import flask, authlib'",
            server: Server(script: "token_server.py", environment: ["SECRET_IN": secretIn, "VALUE": secret]),
            words: ("an API with a token server (authlib)", "`oauth2`, `\"secretIn\": \"\(secretIn)\"`", "nothing"),
            credential: """
                {"oauth2": {"tokenURL": "https://\(CredentialMatrixTests.tokenHost)/oauth2/token", "clientID": "reports",
                 "clientSecretFile": "secret", "secretIn": "\(secretIn)", "scopes": ["contacts.read"],
                 "parameters": {"audience": "https://crm.example.com"}}}
                """,
            secret: secret,
            hears: ["GET ", "POST message"]
        )
    }

    static let all: [KeylessClient] = [
        KeylessClient(
            name: "curl",
            program: nil,
            script: "curl",
            server: api,
            words: ("an API (`x-api-key`)", "`file`", "a placeholder"),
            credential: #"{"header": "x-api-key", "file": "secret", "placeholder": "\#(placeholder)"}"#,
            secret: key,
            placeholder: placeholder,
            hears: ["GET ", "POST message", "PUT uploaded"]
        ),
        KeylessClient(
            name: "Python urllib",
            script: "urllib_client.py",
            server: api,
            words: ("an API (`x-api-key`)", "`file`", "a placeholder"),
            credential: #"{"header": "x-api-key", "file": "secret", "placeholder": "\#(placeholder)"}"#,
            secret: key,
            placeholder: placeholder,
            hears: ["GET ", "POST message"]
        ),
        KeylessClient(
            name: "Python requests",
            script: "requests_client.py",
            needs: "\(RealPeers.python) -c 'import requests'",
            server: bearerAPI,
            words: ("an API (`Authorization: Bearer`)", "`command`, an ExecCredential", "a placeholder"),
            credential: #"{"command": ["/bin/cat", "SECRET"], "placeholder": "\#(placeholder)"}"#,
            secret: """
                {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                 "status": {"token": "\(key)", "expirationTimestamp": "2099-01-01T00:00:00Z"}}
                """,
            placeholder: placeholder,
            hears: ["GET ", "POST message", "POST message"]
        ),
        KeylessClient(
            name: "git push and clone",
            program: nil,
            script: "git",
            server: git,
            words: ("git-http-backend", "`basicUser`, `file`", "nothing"),
            credential: #"{"basicUser": "x-access-token", "file": "secret"}"#,
            secret: key,
            rule: gitPaths,
            hears: ["cloned what was pushed"]
        ),
        KeylessClient(
            name: "git push and clone, `http.extraHeader`",
            program: nil,
            script: "git",
            server: git,
            words: ("git-http-backend", "`basicUser`, `file`", "a placeholder"),
            credential: #"{"basicUser": "x-access-token", "file": "secret", "placeholder": "\#(placeholder)"}"#,
            secret: key,
            placeholder: placeholder,
            rule: gitPaths,
            hears: ["cloned what was pushed"]
        ),
        KeylessClient(
            name: "Python boto3, S3",
            script: "boto3_client.py",
            needs: "\(RealPeers.python) -c 'import boto3'",
            server: aws(refusal: "403"),
            words: ("signatures compared with botocore's", "`awsSigV4`, `s3`", "other keys"),
            credential: signing("s3"),
            secret: awsKeys,
            environment: ["SERVICE": "s3"],
            hears: ["stored", "the same object"]
        ),
        KeylessClient(
            name: "Python boto3, DynamoDB",
            script: "boto3_client.py",
            needs: "\(RealPeers.python) -c 'import boto3'",
            server: aws(refusal: "403"),
            words: ("signatures compared with botocore's", "`awsSigV4`, `dynamodb`", "other keys"),
            credential: signing("dynamodb"),
            secret: awsKeys,
            environment: ["SERVICE": "dynamodb"],
            hears: ["stored", "the same item"]
        ),
        KeylessClient(
            name: "AWS CLI, S3",
            program: nil,
            script: "aws",
            needs: "aws --version && \(RealPeers.python) -c 'import botocore'",
            server: aws(refusal: "SignatureDoesNotMatch"),
            words: ("signatures compared with botocore's", "`awsSigV4`, `s3`", "other keys"),
            credential: signing("s3"),
            secret: awsKeys,
            hears: ["the same object"]
        ),
        // authlib does not decode the secret within Basic, as RFC 6749 (section 2.3.1) has it.
        oauth("header", key),
        oauth("body", clientSecret),
    ]

    /// Why it cannot be run on this machine; nil when it can.
    var absence: String? {
        guard let needs, (try? Programs.run("sh", ["-c", needs]))?.exitCode != 0 else { return nil }
        return "\(needs): failed"
    }

    // MARK: Running

    /// Starts its server.
    func start(in folder: TemporaryFolder) throws -> (process: ChildProcess, port: UInt16) {
        if server.hasRepository {
            let repository = "\(folder.path)/repository.git"
            for words in [
                ["init", "-q", "--bare", "-b", "main", repository],
                ["-C", repository, "config", "http.receivepack", "true"],
            ] {
                let finished = try Programs.run("git", words)
                guard finished.exitCode == 0 else { throw ChildProcess.Failure(description: finished.errors) }
            }
        }
        let variables = Programs.environment.merging(server.environment) { $1 }.merging(["SITE": folder.path]) { $1 }
        let script = RealPeers.script("Servers/keyed/\(server.script)")
        let process = try ChildProcess(RealPeers.python, [script], environment: variables)
        let port = try process.waitForOutput("the server's port") { text in
            text.split(separator: "\n").first.flatMap { UInt16($0) }
        }
        return (process, port)
    }

    /// Its credential, for a proxy whose files are in a folder.
    func definition(in folder: String) throws -> [String: Any] {
        let text = credential.replacing("SECRET", with: "\(folder)/secret")
        return try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] ?? [:]
    }

    func run(through proxy: ProxyUnderTest, in work: TemporaryFolder) throws -> Programs.Finished {
        let variables = Programs.environment.merging(environment) { $1 }.merging([
            "PROXY": "http://127.0.0.1:\(proxy.port)", "BASE": "http://\(Stage.host)", "WORK": work.path,
            "PLACEHOLDER": placeholder,
        ]) { $1 }
        let path = RealPeers.script("Clients/keyless/\(script)")
        guard let program else { return try Programs.run(path, [], environment: variables, seconds: 120) }
        return try Programs.run(program, [path], environment: variables, seconds: 120)
    }
}
