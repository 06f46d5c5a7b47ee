// SPDX-License-Identifier: Apache-2.0
/// The version of HTTP that a client may begin to speak.
enum ClientProtocol {
    case http1
    case http2
    /// The first bytes may belong to either.
    case either
}
