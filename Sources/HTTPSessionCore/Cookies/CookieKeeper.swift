// SPDX-License-Identifier: Apache-2.0
import IOCore
import SessionCore

/// Writes the cookies of a storage to its file, on a thread of its own, a second after a change.
///
/// `@unchecked Sendable`: `isPlanned` is behind `lock`, `timer` belongs to the loop, and all else is immutable.
final class CookieKeeper: @unchecked Sendable {
    private let file: CookieFile
    private let loop: EventLoop
    private let thread: LoopThread
    private let lock = PosixLock()
    private var isPlanned = false
    private var timer: LoopTimer?

    init(_ file: CookieFile) throws(SessionError) {
        self.file = file
        do throws(IOFailure) {
            let loop = try EventLoop()
            self.loop = loop
            thread = try LoopThread(name: "Cookies") { loop.run() }
        } catch {
            throw SessionError(.internal, "The thread that writes cookies could not be started: \(error).")
        }
    }

    deinit {
        // The last work of the loop.
        loop.submit { [loop] in loop.stop() }
        thread.detach()
    }

    /// Has the storage saved soon. A failure is not reported: the next change, and `CookieStorage.save`, try again.
    func plan(_ storage: CookieStorage) {
        let isFirst = lock.withLock {
            defer { isPlanned = true }
            return !isPlanned
        }
        guard isFirst else { return }
        loop.submit { [weak self, weak storage] in
            guard let self else { return }
            let timer = LoopTimer { [weak self, weak storage] in
                guard let self, let storage else { return }
                lock.withLock { isPlanned = false }
                try? write(storage)
            }
            self.timer = timer
            loop.arm(timer, after: .seconds(1))
        }
    }

    /// Saves the storage, and returns when the file has been replaced.
    func save(_ storage: CookieStorage) async throws(SessionError) {
        let result: Result<Void, SessionError> = await handedOver { give in
            loop.submit { [self] in
                do throws(SessionError) {
                    try write(storage)
                    give(.success(()))
                } catch {
                    give(.failure(error))
                }
            }
        }
        try result.get()
    }

    /// Saves what a storage leaves behind at its end.
    func saveLast(_ cookies: [Cookie], at now: Int64) {
        loop.submit { [self] in try? file.write(cookies, at: now) }
    }

    /// On the loop.
    private func write(_ storage: CookieStorage) throws(SessionError) {
        guard let cookies = storage.takeUnsaved() else { return }
        do throws(SessionError) {
            try file.write(cookies, at: CookieStorage.now)
        } catch {
            storage.keepUnsaved()
            throw error
        }
    }
}
