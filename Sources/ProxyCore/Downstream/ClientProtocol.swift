/// The version of HTTP that a client may begin to speak.
enum ClientProtocol {
    case http1
    case http2
    /// What its first bytes say.
    case either
}
