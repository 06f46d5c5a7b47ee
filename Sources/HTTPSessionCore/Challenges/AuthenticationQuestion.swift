// SPDX-License-Identifier: Apache-2.0
import HTTPCore

/// A 401 with the authentication schemes that it offers, as far as the hooks have not been asked about them; the best
/// scheme first.
struct AuthenticationQuestion {
    /// The request that got the 401.
    let request: HTTPSessionRequest
    let response: ResponseHead
    let url: AbsoluteURL
    var offers: ArraySlice<OfferedAuthentication>
}
