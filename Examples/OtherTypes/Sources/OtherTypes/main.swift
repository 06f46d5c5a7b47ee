// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import HTTPTypes
import ServerTrust
import SessionCore

// Each name is that of HTTPTypes: one of ours with the same name would be ambiguous here, and this file would not compile.
let foreign: [Any] = [HTTPField(), HTTPFields(), HTTPRequest(), HTTPResponse()]

let manager = try HTTPSessionManager()
print(
    "A session with",
    manager.configuration.cachePolicy,
    "beside",
    foreign.count,
    "types of another package"
)
