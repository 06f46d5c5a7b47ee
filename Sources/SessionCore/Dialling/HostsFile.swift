import Glibc
import HTTPCore
import IOCore
import ServerTrust

/// The contents of a hosts file (hosts(5)). A value.
///
/// It is not read by c-ares: version 1.34 gives a name the addresses of every other name that shares one with it
/// (c-ares #1049).
struct HostsFile {
    private var addresses: [String: [SocketAddress]] = [:]

    /// Lines that cannot be read are passed over.
    init(_ bytes: [UInt8]) {
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let fields = line.prefix { $0 != UInt8(ascii: "#") }
                .split { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
            guard let first = fields.first, let address = IPAddress(String(decoding: first, as: UTF8.self)) else {
                continue
            }
            let socketAddress =
                address.ipv4Value.map { SocketAddress(ipv4: $0, port: 0) }
                ?? SocketAddress(ipv6Upper: address.high, lower: address.low, port: 0)
            for field in fields.dropFirst() {
                let name = String(decoding: field, as: UTF8.self).lowercased()
                if addresses[name]?.contains(socketAddress) != true {
                    addresses[name, default: []].append(socketAddress)
                }
            }
        }
    }

    /// In the order of the file.
    ///
    /// - Parameter name: in lower case.
    func addresses(of name: String) -> [SocketAddress] { addresses[name] ?? [] }
}

/// `/etc/hosts`, read again when it has changed.
struct SystemHosts {
    /// What tells one state of the file from another.
    private struct Stamp: Equatable {
        let device: UInt
        let number: UInt
        let size: Int
        let seconds: Int
        let nanoseconds: Int
    }

    /// Larger files are not read.
    private static let limit = 16 << 20
    private let path: String
    private var stamp: Stamp?
    private var contents = HostsFile([])

    init(path: String = "/etc/hosts") { self.path = path }

    /// The addresses of a name, the best family first; empty when the file does not have it.
    mutating func addresses(of name: String) -> [SocketAddress] {
        let current = currentStamp()
        if current != stamp {
            switch current.map({ _ in FileContents.read(path, limit: Self.limit) }) {
            case nil: (stamp, contents) = (nil, HostsFile([]))
            case .success(let bytes)?: (stamp, contents) = (current, HostsFile(bytes))
            // The last contents hold until the file can be read again.
            case .failure?: break
            }
        }
        let found = contents.addresses(of: name)
        return FamilyOrder.sorted(
            ipv4: found.filter { $0.family == .ipv4 },
            ipv6: found.filter { $0.family == .ipv6 },
            source: SourceAddress.find
        )
    }

    private func currentStamp() -> Stamp? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Stamp(
            device: UInt(status.st_dev),
            number: UInt(status.st_ino),
            size: status.st_size,
            seconds: status.st_mtim.tv_sec,
            nanoseconds: status.st_mtim.tv_nsec
        )
    }
}
