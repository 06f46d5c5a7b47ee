// SPDX-License-Identifier: Apache-2.0
import StrictJSON

// Files that the configuration names, and the places that name them, for reports of what is wrong with them.

/// A listener's `tls`, and the places of its paths.
struct TLSFiles {
    var files: ListenerTLS
    var certificate: DocumentElement
    var key: DocumentElement
    var clientCA: DocumentElement?
    var crlFiles: [DocumentElement]
}

/// An `authentication`, and the places of its paths.
struct AuthenticationFiles {
    var configuration: AuthenticationConfiguration
    var basic: DocumentElement?
    var bearer: DocumentElement?
    var localUsers: DocumentElement?
}

/// The places of the paths of `interception`.
struct InterceptionFiles {
    var certificate: DocumentElement
    var key: DocumentElement
}

/// The places of the URL and the secret files of `cache.redis`.
struct RedisFiles {
    var url: DocumentElement?
    var key: DocumentElement?
    var password: DocumentElement?
    var sentinelPassword: DocumentElement?
}
