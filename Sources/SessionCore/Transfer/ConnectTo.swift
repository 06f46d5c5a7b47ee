import CLibcurl
import HTTPCore

/// A fixed place to connect to, as libcurl's `CURLOPT_CONNECT_TO` reads it. Owns the list.
///
/// `@unchecked Sendable`: the list is made in `init`, never changed, and libcurl only reads it.
final class ConnectTo: @unchecked Sendable {
    let list: UnsafeMutablePointer<curl_slist>

    init(host: Host, port: UInt16) {
        guard let list = curl_slist_append(nil, "::\(host.authorityText):\(port)") else {
            fatalError("no memory for a list of one")
        }
        self.list = list
    }

    deinit {
        curl_slist_free_all(list)
    }
}
