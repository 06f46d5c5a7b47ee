// SPDX-License-Identifier: Apache-2.0
import Glibc
import HTTPCore
import IOCore
import ServerTrust

/// The contents of a hosts file (hosts(5)). A value.
///
/// It is not read by c-ares: version 1.34 gives a name the addresses of every other name that shares one with it
/// (c-ares #1049).
struct HostsFile: Sendable {
    private var addresses: [String: FirstAddresses] = [:]

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
                if addresses[name]?.all.contains(socketAddress) != true {
                    addresses[name, default: FirstAddresses()].append(socketAddress)
                }
            }
        }
    }

    /// In the order of the file, at most 16 of a family.
    ///
    /// - Parameter name: in lower case.
    func addresses(of name: String) -> [SocketAddress] { addresses[name]?.all ?? [] }
}

/// A hosts file and its contents, on a thread of its own: the file may be long, and its file system slow. One for all sessions
/// of the process, which share the contents.
///
/// `@unchecked Sendable`: `stamp` and `contents` belong to the thread.
final class HostsReader: @unchecked Sendable {
    static let system = HostsReader(path: "/etc/hosts")

    /// The facts that differ between two states of the file.
    private struct Stamp: Equatable {
        let device: UInt
        let number: UInt
        let size: Int
        let seconds: Int
        let nanoseconds: Int
    }

    /// Larger files are not read.
    private static let limit = 16 << 20
    /// So long contents are used without a look at the file.
    let lifetime: TimeSpan
    /// A look that takes longer is not waited for, if there are contents.
    static let patience = TimeSpan.milliseconds(100)
    private let path: String
    private let readFile: @Sendable (String) -> Result<[UInt8], FileContents.Fault>
    private let thread = WorkThread(name: "hosts")
    private var stamp: Stamp?
    /// nil before the file has been read.
    private var contents: HostsFile?

    init(
        path: String,
        lifetime: TimeSpan = .seconds(1),
        readFile: @escaping @Sendable (String) -> Result<[UInt8], FileContents.Fault> = {
            FileContents.read($0, limit: HostsReader.limit)
        }
    ) {
        self.path = path
        self.lifetime = lifetime
        self.readFile = readFile
    }

    /// Reads the file if it has changed.
    ///
    /// - Parameter completion: called once on the loop; with the fault when the file is there, and could not be read yet.
    /// - Returns: false when there is no thread and none can be started.
    func read(
        on loop: EventLoop,
        _ completion: @escaping @Sendable (Result<HostsFile, FileContents.Fault>) -> Void
    ) -> Bool {
        thread.submit {
            let contents = self.currentContents()
            loop.submit { completion(contents) }
        }
    }

    private func currentContents() -> Result<HostsFile, FileContents.Fault> {
        let current = currentStamp()
        if let contents, current == stamp { return .success(contents) }
        var found = HostsFile([])
        // A file that is missing is an empty one.
        if current != nil {
            switch readFile(path) {
            case .success(let bytes): found = HostsFile(bytes)
            // The last contents hold until the file can be read again.
            case .failure(let fault): return contents.map { .success($0) } ?? .failure(fault)
            }
        }
        (stamp, contents) = (current, found)
        return .success(found)
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

/// The hosts file as one session knows it. Belongs to the loop.
final class SystemHosts {
    private let loop: EventLoop
    private let reader: HostsReader
    /// nil before it has been read.
    private var contents: HostsFile?
    /// Until when the contents are used without a look at the file.
    private var end: UInt64 = 0
    private var isReading = false
    /// The reader takes longer than its patience.
    private var isLate = false
    /// Why the file could not be read; nil when it could.
    private var failure: NameFailure?
    private var waiting: [(_ failure: NameFailure?) -> Void] = []
    private var timer: LoopTimer!

    /// `@unchecked Sendable`: `hosts` is for the loop's thread alone.
    private final class Reference: @unchecked Sendable {
        weak var hosts: SystemHosts?

        init(_ hosts: SystemHosts) { self.hosts = hosts }
    }

    init(_ reader: HostsReader, loop: EventLoop) {
        self.reader = reader
        self.loop = loop
        timer = LoopTimer { [unowned self] in
            isLate = true
            complete()
        }
    }

    func close() {
        waiting = []
        loop.remove(timer)
    }

    /// Whether `addresses` may be asked; otherwise `update` comes first.
    var isCurrent: Bool { contents != nil && (isLate || loop.now < end) }

    /// The addresses of a name, the best family first; empty when the file does not have it.
    func addresses(of name: String) -> [SocketAddress] {
        let found = contents?.addresses(of: name) ?? []
        return FamilyOrder.sorted(
            ipv4: found.filter { $0.family == .ipv4 },
            ipv6: found.filter { $0.family == .ipv6 },
            source: SourceAddress.find
        )
    }

    /// Looks at the file on the reader's thread.
    ///
    /// - Parameter completion: called once from the loop, with the reason when there are no contents: what the file says of a name
    ///   is not known then, so that no name server may be asked. Not called after `close`.
    func update(_ completion: @escaping (_ failure: NameFailure?) -> Void) {
        waiting.append(completion)
        guard !isReading else { return }
        let reference = Reference(self)
        isReading = reader.read(on: loop) { reference.hosts?.didRead($0) }
        guard isReading else {
            failure = NameFailure(reason: .withoutDescriptor, words: "there is no thread to read /etc/hosts")
            return loop.atEndOfTurn { [self] in complete() }
        }
        if contents != nil { loop.arm(timer, after: HostsReader.patience) }
    }

    private func didRead(_ found: Result<HostsFile, FileContents.Fault>) {
        (isReading, isLate) = (false, false)
        switch found {
        case .success(let file):
            contents = file
            failure = nil
            end = loop.now &+ reader.lifetime.nanoseconds
        case .failure(let fault):
            // The want of a descriptor is this process's own: a request can make room for one.
            let reason: NameFailure.Reason =
                fault.code == EMFILE || fault.code == ENFILE ? .withoutDescriptor : .failed
            failure = NameFailure(reason: reason, words: "/etc/hosts \(fault.message); \(fault.remedy)")
        }
        complete()
    }

    private func complete() {
        loop.disarm(timer)
        let completions = waiting
        waiting = []
        for complete in completions { complete(contents == nil ? failure : nil) }
    }
}
