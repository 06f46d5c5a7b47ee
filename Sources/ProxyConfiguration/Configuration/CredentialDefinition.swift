// SPDX-License-Identifier: Apache-2.0
package import HTTPCore
import ServerTrust

/// One of `credentials` of the configuration: which field is written, and where its value comes from. It has no value itself.
package struct CredentialDefinition: Hashable, Sendable {
    package var name: String
    /// The name of the field, as written.
    package var header = "Authorization"
    /// Written before the value.
    package var prefix = "Bearer "
    /// The user of Basic authentication, whose password the value is (RFC 7617); nil for other fields.
    package var basicUser: String?
    package var source: CredentialSource
    /// The life of a value that names no end.
    package var ttl: Milliseconds?
    /// The text that the client's own field has to hold.
    package var placeholder: String?
    /// Whether it may be sent to hosts that no pin file names.
    package var allowUnpinned = false

    package init(name: String, source: CredentialSource) {
        self.name = name
        self.source = source
    }

    /// SHA-256 over everything that is defined. Another definition may lead to another response; another value of the same
    /// definition is the same key, renewed.
    package var digest: [UInt8] {
        // Each part is preceded by its length, so that different definitions never give the same bytes.
        var bytes: [UInt8] = []
        for part in parts + source.parts { bytes += Array("\(part.utf8.count):\(part)".utf8) }
        return SecretDigest.sha256(bytes)
    }

    private var parts: [String] {
        [
            name, header, prefix, basicUser.map { "user \($0)" } ?? "", ttl?.description ?? "",
            placeholder.map { "placeholder \($0)" } ?? "", "\(allowUnpinned)",
        ]
    }
}

/// Where the value of a credential comes from.
package enum CredentialSource: Hashable, Sendable {
    /// A file, by its absolute path.
    case file(path: String)
    /// A variable of pinproxy's own environment.
    case env(name: String)
    /// A program and its arguments.
    case command([String])
    case oauth2(OAuthClient)
    case awsSigV4(AWSSource)

    /// The region and service that a value of this source signs for; nil for fields.
    package var scope: AWSScope? {
        if case .awsSigV4(let source) = self { source.scope } else { nil }
    }

    /// Everything that is defined, for digests.
    fileprivate var parts: [String] {
        switch self {
        case .file(let path): return [kind, path]
        case .env(let name): return [kind, name]
        case .command(let words): return [kind] + words
        case .oauth2(let client):
            let lists = ["\(client.scopes.count)"] + client.scopes + client.parameters.flatMap { [$0.name, $0.value] }
            return [kind, client.tokenURL.text, client.clientID, client.clientSecretFile, client.secretIn.rawValue]
                + lists
        case .awsSigV4(let source):
            let keys =
                switch source.keys {
                case .file(let path): ["file", path]
                case .command(let words): ["command"] + words
                }
            return [kind, source.scope.region, source.scope.service] + keys
        }
    }

    /// The program whose output is the value, with its arguments; nil for other sources.
    package var command: [String]? {
        switch self {
        case .command(let words): return words
        case .awsSigV4(let source): if case .command(let words) = source.keys { return words } else { return nil }
        case .file, .env, .oauth2: return nil
        }
    }

    /// The file that holds the value; nil for other sources.
    package var file: String? {
        switch self {
        case .file(let path): return path
        case .awsSigV4(let source): if case .file(let path) = source.keys { return path } else { return nil }
        case .command, .env, .oauth2: return nil
        }
    }

    /// The files with secrets: of the value itself, or of the client at a token server.
    package var secretFiles: [String] {
        if case .oauth2(let client) = self { return [client.clientSecretFile] }
        return file.map { [$0] } ?? []
    }

    /// Whether each run may give another value.
    package var makesValues: Bool {
        switch self {
        case .file, .env: false
        case .command, .oauth2: true
        case .awsSigV4(let source): if case .command = source.keys { true } else { false }
        }
    }

    /// The key in the configuration.
    package var kind: String {
        switch self {
        case .file: "file"
        case .env: "env"
        case .command: "command"
        case .oauth2: "oauth2"
        case .awsSigV4: "awsSigV4"
        }
    }
}

/// A client of a token server that asks with its own credentials (RFC 6749, section 4.4).
package struct OAuthClient: Hashable, Sendable {
    /// Where the client says who it is (RFC 6749, section 2.3.1).
    package enum SecretPlace: String, CaseIterable, Sendable {
        /// Basic authentication.
        case header
        /// `client_id` and `client_secret` in the form.
        case body
    }

    package struct Parameter: Hashable, Sendable {
        package var name: String
        package var value: String
    }

    /// The URL of the token server, with the scheme https.
    package var tokenURL: AbsoluteURL
    package var clientID: String
    /// An absolute path.
    package var clientSecretFile: String
    package var scopes: [String] = []
    package var secretIn = SecretPlace.header
    /// Further parameters, in the order of the configuration.
    package var parameters: [Parameter] = []

    package init(tokenURL: AbsoluteURL, clientID: String, clientSecretFile: String) {
        self.tokenURL = tokenURL
        self.clientID = clientID
        self.clientSecretFile = clientSecretFile
    }
}

/// The region and service that a signature is for.
package struct AWSScope: Hashable, Sendable {
    package var region: String
    package var service: String

    package init(region: String, service: String) {
        self.region = region
        self.service = service
    }
}

/// Keys that requests to AWS are signed with.
package struct AWSSource: Hashable, Sendable {
    package enum Keys: Hashable, Sendable {
        /// A file with the JSON of `credential_process`, by its absolute path.
        case file(path: String)
        case command([String])
    }

    package var scope: AWSScope
    package var keys: Keys

    package init(scope: AWSScope, keys: Keys) {
        self.scope = scope
        self.keys = keys
    }
}
