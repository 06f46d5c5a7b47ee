// SPDX-License-Identifier: Apache-2.0
public import HTTPSessionCore
import IOCore
public import SessionCore

/// Records the exchanges of sessions as an HTTP Archive (HAR 1.2): a file that browsers' developer tools open, and that a
/// `StubOrigin` replays.
///
/// ```swift
/// let recorder = HARRecorder()
/// var configuration = HTTPSessionManager.Configuration()
/// configuration.recordExchanges(with: recorder)
/// …
/// try recorder.write(to: "Tests/Recordings/items.har")
/// ```
///
/// Each request of a task is an entry: those of redirects, challenges and retries, too, and failures. Background validations
/// of the cache, trailers and requests of `LoopTask`s that the program makes are not recorded.
///
/// Credentials and cookies are left out (`HARRedaction`); look at a recording before you share it all the same.
///
/// `@unchecked Sendable`: `shared` is accessed with `lock` held.
public final class HARRecorder: @unchecked Sendable {
    /// The limits of a recording, and the secrets that are left out of it.
    public struct Options: Sendable {
        /// The secrets that are left out.
        public var redaction: HARRedaction
        /// The most exchanges; the oldest ones give way to further ones.
        public var maximumEntries: Int
        /// The longest body, in bytes; a longer one is left out of its entry.
        public var maximumBodySize: Int
        /// The most bytes of all bodies together; the oldest exchanges give way.
        public var maximumSize: Int

        /// Options with the defaults.
        public init(
            redaction: HARRedaction = HARRedaction(),
            maximumEntries: Int = 1000,
            maximumBodySize: Int = 4 << 20,
            maximumSize: Int = 64 << 20
        ) {
            self.redaction = redaction
            self.maximumEntries = maximumEntries
            self.maximumBodySize = maximumBodySize
            self.maximumSize = maximumSize
        }
    }

    /// The options, which do not change.
    public let options: Options
    private let lock = PosixLock()
    /// Behind `lock`.
    private var shared = Shared()

    private struct Shared {
        var exchanges: [RecordedExchange] = []
        /// The first of `exchanges` that counts.
        var first = 0
        var footprint = 0
        var dropped = 0
    }

    /// A recorder without entries.
    public init(options: Options = Options()) { self.options = options }

    /// How many exchanges it has now.
    public var count: Int { lock.withLock { shared.exchanges.count - shared.first } }

    /// How many exchanges have given way to later ones.
    public var droppedCount: Int { lock.withLock { shared.dropped } }

    /// Forgets all exchanges.
    public func removeAll() { lock.withLock { shared = Shared() } }

    func add(_ exchange: RecordedExchange) {
        lock.withLock {
            shared.exchanges.append(exchange)
            shared.footprint += exchange.footprint
            while shared.exchanges.count - shared.first > max(0, options.maximumEntries)
                || (shared.footprint > options.maximumSize && shared.first < shared.exchanges.count)
            {
                shared.footprint -= shared.exchanges[shared.first].footprint
                shared.first += 1
                shared.dropped += 1
            }
            // Not for each one, which would move all others.
            guard shared.first > 256 || shared.first == shared.exchanges.count else { return }
            shared.exchanges.removeFirst(shared.first)
            shared.first = 0
        }
    }

    // MARK: The archive

    /// The archive of the exchanges that are complete, in the order of their beginnings.
    public var archive: JSONValue {
        let (exchanges, dropped) = lock.withLock { (Array(shared.exchanges[shared.first...]), shared.dropped) }
        let writer = HARWriter(redactor: Redactor(options.redaction))
        return writer.archive(of: exchanges, dropped: dropped)
    }

    /// The archive as a file's bytes.
    public func serialized() -> [UInt8] {
        archive.serialized([.prettyPrinted, .withoutEscapingSlashes]) + [UInt8(ascii: "\n")]
    }

    /// Writes the archive to a file that only this user can read, in one step; what is no regular file (a device, a FIFO) is
    /// written to. It blocks on the disk.
    ///
    /// - Throws: `fileFailed`.
    public func write(to path: String) throws(SessionError) {
        do throws(IOFailure) {
            try FileMove.makeFolders(above: path)
            try OutputFile(path).write(serialized(), as: .secret)
        } catch {
            throw SessionError(.fileFailed, "The recording cannot be written to \(path): \(error).")
        }
    }
}

extension URLSessionManager.Configuration {
    /// Records all requests of the session's tasks. A recorder may serve several sessions.
    public mutating func recordExchanges(with recorder: HARRecorder) {
        recording = { request, delegate in
            let limit = recorder.options.maximumBodySize
            let recording = RecordingDelegate(request, delegate, limit: limit) { recorder.add($0) }
            return HopRecording(delegate: recording) { recording.didSend($0) }
        }
    }
}
