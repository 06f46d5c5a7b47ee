// SPDX-License-Identifier: Apache-2.0
/// The authentication schemes whose result belongs to the connection and not to the request (RFC 4559, section 6): what comes over
/// a connection behind it is meant for the one who has authenticated.
extension HeaderFields {
    /// Whether `Authorization` has credentials of such a scheme.
    package var authenticatesConnection: Bool {
        names.contains(.authorization) && namesConnectionScheme(.authorization)
    }

    /// Whether `WWW-Authenticate` offers such a scheme, or goes on with its handshake.
    package var offersConnectionAuthentication: Bool {
        names.contains(.wwwAuthenticate) && namesConnectionScheme(.wwwAuthenticate)
    }

    private func namesConnectionScheme(_ id: FieldName) -> Bool {
        var index = first(id)
        while let current = index {
            let value = value(at: current)
            var members = ListMembers()
            while let member = members.next(in: value) {
                var end = member.lowerBound
                while end < member.upperBound, !ASCII.isBlank(value[end]) { end += 1 }
                let scheme = value.extracting(member.lowerBound..<end)
                if scheme.equalsIgnoringCase("NTLM") || scheme.equalsIgnoringCase("Negotiate") { return true }
            }
            index = next(id, after: current)
        }
        return false
    }
}
