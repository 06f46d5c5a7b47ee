// SPDX-License-Identifier: Apache-2.0
/// How far the making of a connection has come.
enum ConnectionStage {
    /// No address has been dialled yet.
    case lookup
    /// CONNECT to an HTTP proxy, and TLS to an HTTPS proxy before it.
    case tunnel
    /// TCP, and TLS to the origin.
    case connection
}
