import CLibcurl

/// An endpoint's URL as libcurl reads it: the text, and the same parsed once for all requests. Owns the parsed form.
///
/// `@unchecked Sendable`: made in `init`, never changed; libcurl copies it for each request (curl_url_dup(3)).
final class OriginURL: @unchecked Sendable {
    let text: [CChar]
    let parsed: OpaquePointer

    /// - Parameter url: made from a scheme, a normalised host and a port, so that libcurl has nothing to refuse.
    init(_ url: String) {
        text = Array(url.utf8CString)
        guard let parsed = curl_url() else { fatalError("no memory for a URL") }
        self.parsed = parsed
        let result = curl_url_set(parsed, CURLUPART_URL, url, UInt32(CURLU_PATH_AS_IS))
        precondition(result == CURLUE_OK, "libcurl does not read \(url)")
    }

    deinit {
        curl_url_cleanup(parsed)
    }
}
