// SPDX-License-Identifier: Apache-2.0
package import SessionCore

/// The address of a server: a host in its normal form, as in a URL, and a port.
package struct RedisAddress: Hashable, Sendable {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }
}

/// The name and password for AUTH.
package struct RedisLogin: Hashable, Sendable {
    package var user: [UInt8]?
    package var password: [UInt8]

    package init(user: [UInt8]?, password: [UInt8]) {
        self.user = user
        self.password = password
    }
}

/// Makes a stream to a server under the current security policy, not resumed; nil when the rules do not let it go there.
package typealias RedisDial = (RedisAddress, LoopStreamTaskDelegate) -> LoopStreamTask?
