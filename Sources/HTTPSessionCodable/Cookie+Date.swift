// SPDX-License-Identifier: Apache-2.0
public import FoundationEssentials
public import HTTPCore
public import HTTPSessionCore
import ServerTrustDates
public import SessionCore

extension Cookie {
    /// The end of its life; nil: it lives as long as the storage.
    public var expirationDate: Date? { expires.map { Date(unixSeconds: $0) } }

    /// A cookie of the program's own.
    ///
    /// - Throws: `requestInvalid` for a name that is no token, or a value with characters that a field cannot contain.
    public init(
        name: String,
        value: String,
        domain: Host,
        isHostOnly: Bool = true,
        path: String = "/",
        expirationDate: Date? = nil,
        isSecure: Bool = true,
        isHTTPOnly: Bool = false
    ) throws(SessionError) {
        try self.init(
            name: name,
            value: value,
            domain: domain,
            isHostOnly: isHostOnly,
            path: path,
            expires: expirationDate?.unixSeconds,
            isSecure: isSecure,
            isHTTPOnly: isHTTPOnly
        )
    }
}
