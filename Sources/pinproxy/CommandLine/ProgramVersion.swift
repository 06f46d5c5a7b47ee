// SPDX-License-Identifier: Apache-2.0
import CCares
import CIDN2
import CNGHTTP2
import COpenSSL
import CPSL
import CSQLite
import CShims
import CZlib
import SessionCore

/// The program's version, in the form of semver.org; CHANGELOG.md has the changes.
enum ProgramVersion {
    static let current = "0.1.0"

    /// The commit that it was built from; nil where the build did not know one (`make build` tells it).
    static var commit: String? {
        let text = String(cString: pinproxy_commit())
        return text.isEmpty ? nil : text
    }

    /// The libraries of the system as they are loaded, not as they were at the build. libcurl may be missing: it is loaded for SOCKS
    /// proxies alone.
    static var libraries: [(name: String, version: String?)] {
        func text(_ version: UnsafePointer<CChar>?) -> String { version.map { String(cString: $0) } ?? "unknown" }
        let openSSL = text(OpenSSL_version(OPENSSL_VERSION))
        return [
            ("OpenSSL", openSSL.hasPrefix("OpenSSL ") ? String(openSSL.dropFirst("OpenSSL ".count)) : openSSL),
            ("libcurl", SOCKSLibrary.version),
            ("c-ares", text(ares_version(nil))),
            ("nghttp2", text(nghttp2_version(0).pointee.version_str)),
            ("SQLite", text(sqlite3_libversion())),
            ("libidn2", text(idn2_check_version(nil))),
            ("libpsl", text(psl_get_version())),
            ("zlib", text(zlibVersion())),
        ]
    }
}
