// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The variables that tell programs their proxy.
enum ProxyEnvironment {
    /// `environment` with `proxy` as the proxy for everything.
    ///
    /// `https_proxy` and `all_proxy` name it too, so that an https URL of the child fails with the proxy's 403 and its
    /// remedy instead of avoiding the pins. `HTTP_PROXY` is never set: in a CGI program it would be a field of the
    /// request (httpoxy.org). The other spellings are removed, because some programs prefer them.
    ///
    /// - Parameter keepsNoProxy: keeps the child's exceptions, which use neither the proxy nor its pins.
    static func variables(_ environment: [String], proxy: String, keepsNoProxy: Bool) -> [String] {
        var replaced: Set = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
        if !keepsNoProxy { replaced.formUnion(["no_proxy", "NO_PROXY"]) }
        let kept = environment.filter { !replaced.contains(name(of: $0)) }
        return kept + ["http_proxy", "https_proxy", "all_proxy"].map { "\($0)=\(proxy)" }
    }

    /// The name of a variable that is written as `NAME=value`.
    static func name(of variable: String) -> String { String(variable.prefix { $0 != "=" }) }

    /// The variables of this process.
    static var current: [String] {
        var variables: [String] = []
        var next = environ
        while let text = next.pointee {
            variables.append(String(cString: text))
            next += 1
        }
        return variables
    }
}
