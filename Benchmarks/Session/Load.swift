// SPDX-License-Identifier: Apache-2.0
import Foundation
import FoundationNetworking
import HTTPCore
import HTTPSessionCore
import ServerTrust
import SessionCore
import Synchronization

/// Requests for one URL, as many at a time as `width`, each begun when another has ended.
struct Load {
    var url: String
    var count: Int
    var width: Int

    struct Figures {
        /// Microseconds of the process's CPU time, and of time.
        var cpu: Int
        var time: Int
        var bytes: Int
        var failures: Int
    }

    /// What the threads count. `Sendable` by its atomics.
    final class Tally: Sendable {
        let left: Atomic<Int>
        let done = Atomic<Int>(0)
        let bytes = Atomic<Int>(0)
        let failures = Atomic<Int>(0)
        let end = DispatchSemaphore(value: 0)
        let count: Int

        init(_ count: Int) {
            self.count = count
            left = Atomic(count)
        }

        /// - Returns: whether one more may begin.
        func takes() -> Bool { left.subtract(1, ordering: .relaxed).newValue >= 0 }

        func ended(_ bytes: Int?) {
            if let bytes { self.bytes.add(bytes, ordering: .relaxed) } else { failures.add(1, ordering: .relaxed) }
            if done.add(1, ordering: .relaxed).newValue == count { end.signal() }
        }
    }

    private func measure(_ start: (Tally) -> Void) -> Figures {
        let tally = Tally(count)
        let cpu = Self.now(CLOCK_PROCESS_CPUTIME_ID)
        let time = Self.now(CLOCK_MONOTONIC)
        start(tally)
        tally.end.wait()
        return Figures(
            cpu: Self.now(CLOCK_PROCESS_CPUTIME_ID) - cpu,
            time: Self.now(CLOCK_MONOTONIC) - time,
            bytes: tally.bytes.load(ordering: .relaxed),
            failures: tally.failures.load(ordering: .relaxed)
        )
    }

    private static func now(_ clock: clockid_t) -> Int {
        var time = timespec()
        clock_gettime(clock, &time)
        return time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }

    // MARK: The session core

    /// - Parameter place: a CA's file, and where the URL's host really is.
    func runCore(overHTTP2: Bool, place: (anchors: String, address: String)?) throws -> Figures {
        var configuration = URLSessionManager.Configuration()
        if overHTTP2 { configuration.httpVersion = .http2 }
        // Under valgrind, on a busy machine, as many handshakes as requests in flight take longer than the default.
        configuration.timeouts.connect = .seconds(600)
        let library = TrustAnchorLibrary()
        let anchors = try library.anchors(system: false, files: place.map { [$0.anchors] } ?? [])
        if let place, let origin = AbsoluteURL(url)?.origin,
            let target = AbsoluteURL("http://\(place.address)/")?.origin
        {
            configuration.resolve[origin.host] = (target.host, target.port)
        }
        let manager = try URLSessionManager(
            configuration: configuration,
            serverTrust: SessionTrust(anchors: anchors)
        )
        let request = HTTPSessionRequest(url: url)
        return measure { tally in
            for _ in 0..<width { Self.next(tally, manager, request) }
        }
    }

    @Sendable private static func next(_ tally: Tally, _ manager: URLSessionManager, _ request: HTTPSessionRequest) {
        guard tally.takes() else { return }
        do throws(SessionError) {
            let task = try manager.dataTask(with: request) { result in
                tally.ended(try? result.get().data.count)
                next(tally, manager, request)
            }
            task.resume()
        } catch {
            tally.ended(nil)
        }
    }

    // MARK: Foundation

    func runFoundation() -> Figures {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpMaximumConnectionsPerHost = width
        let session = URLSession(configuration: configuration)
        guard let url = URL(string: url) else { return Figures(cpu: 0, time: 0, bytes: 0, failures: count) }
        return measure { tally in
            for _ in 0..<width { Self.next(tally, session, url) }
        }
    }

    @Sendable private static func next(_ tally: Tally, _ session: URLSession, _ url: URL) {
        guard tally.takes() else { return }
        session.dataTask(with: url) { data, _, error in
            tally.ended(error == nil ? data?.count : nil)
            next(tally, session, url)
        }.resume()
    }
}
