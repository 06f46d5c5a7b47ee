import HTTPCore

/// A 401, and those of its ways that nobody has been asked about yet, the best first.
struct AuthenticationQuestion {
    let response: ResponseHead
    let url: AbsoluteURL
    var offers: ArraySlice<OfferedAuthentication>
}
