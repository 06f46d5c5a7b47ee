import Foundation

/// The real clients and servers that the proxy is tried with. Tests run those that the machine has; with
/// `PINPROXY_REQUIRE_CLIENTS=1`, which CI sets, one that is missing fails.
enum RealPeers {
    static let areRequired = ProcessInfo.processInfo.environment["PINPROXY_REQUIRE_CLIENTS"] == "1"
}
