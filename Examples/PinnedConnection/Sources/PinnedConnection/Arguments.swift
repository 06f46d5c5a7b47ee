// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust

struct Arguments {
    var host: Host
    var port: UInt16
    var pin: PublicKeyPin
    /// Replaces the system's authorities.
    var authorities: String?

    init(_ words: [String]) throws {
        guard (4...5).contains(words.count), let port = UInt16(words[2]) else {
            throw UsageFault(description: "usage: PinnedConnection HOST PORT PIN [CA.pem]")
        }
        do {
            host = try Host(words[1])
            pin = try PublicKeyPin(words[3])
        } catch {
            throw UsageFault(description: "\(error)")
        }
        self.port = port
        authorities = words.count == 5 ? words[4] : nil
    }
}

struct UsageFault: Error, CustomStringConvertible {
    var description: String
}
