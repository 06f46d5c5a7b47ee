import CShims
import HTTPCore

/// A proxy as libcurl reads it.
final class ProxySetting: Sendable {
    private let url: [CChar]
    private let user: [CChar]?
    private let password: [CChar]?

    init(_ proxy: SessionProxy) {
        let scheme =
            switch proxy.kind {
            case .http: "http"
            case .socks5: "socks5h"
            }
        url = Array("\(scheme)://\(proxy.host.authorityText):\(proxy.port)".utf8CString)
        user = proxy.credentials.map { Array($0.user.utf8CString) }
        password = proxy.credentials.map { Array($0.password.utf8CString) }
    }

    /// Has libcurl copy it (curl_easy_setopt(3)).
    func apply(to easy: UnsafeMutableRawPointer) {
        url.withUnsafeBufferPointer { url in
            guard let user, let password else { return pinproxy_easy_set_proxy(easy, url.baseAddress, nil, nil) }
            user.withUnsafeBufferPointer { user in
                password.withUnsafeBufferPointer { password in
                    pinproxy_easy_set_proxy(easy, url.baseAddress, user.baseAddress, password.baseAddress)
                }
            }
        }
    }
}
