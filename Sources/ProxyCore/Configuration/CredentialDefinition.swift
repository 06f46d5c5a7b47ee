package import HTTPCore

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
    /// How long a value lives that names no end.
    package var ttl: Milliseconds?
    /// What the client's own field has to hold.
    package var placeholder: String?
    /// Whether it may be sent to hosts that no pin file names.
    package var allowUnpinned = false

    package init(name: String, source: CredentialSource) {
        self.name = name
        self.source = source
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

    /// What a value of this source signs; nil for fields.
    package var scope: AWSScope? {
        if case .awsSigV4(let source) = self { source.scope } else { nil }
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

    /// Of the scheme https.
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
