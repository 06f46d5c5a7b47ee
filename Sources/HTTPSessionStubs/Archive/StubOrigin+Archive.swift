// SPDX-License-Identifier: Apache-2.0
import ServerTrust
public import SessionCore

extension StubOrigin {
    /// An origin that replays a recording: a file of `HARRecorder`, of a browser's developer tools, or of another tool that writes
    /// HTTP Archives (HAR 1.2). It blocks on the disk.
    ///
    /// - Parameters:
    ///   - path: of the file.
    ///   - matchesBodies: whether a request has to have the recorded body, too, and not only method and URL.
    ///   - repeatsLast: whether the last response to a request is given again and again.
    /// - Throws: `requestInvalid` for a file that cannot be read, or is no archive.
    public convenience init(
        har path: String,
        matchesBodies: Bool = false,
        repeatsLast: Bool = false
    ) throws(SessionError) {
        let bytes: [UInt8]
        do {
            bytes = try FileContents.read(path, limit: 1 << 30).get()
        } catch {
            throw SessionError(
                .requestInvalid,
                "The recording \(path) cannot be read: \(error.message). \(error.remedy)"
            )
        }
        self.init()
        try replay(har: bytes, named: path, matchesBodies: matchesBodies, repeatsLast: repeatsLast)
    }

    /// Replays a recording from now on, instead of another one.
    ///
    /// A request gets the first response to its method and URL that was not given yet; those of a browser's `data:` URLs and
    /// WebSockets are left out. Recorded failures are failures again, without their delays. Routes go before a recording. A
    /// request that the recording does not have fails with `request_invalid`, and is one of `unmatchedRequests`.
    ///
    /// - Parameters:
    ///   - har: the bytes of an HTTP Archive (HAR 1.2).
    ///   - name: its name in errors.
    ///   - matchesBodies: whether a request has to have the recorded body, too. All failures come behind the request then.
    ///   - repeatsLast: whether the last response to a request is given again and again.
    /// - Throws: `requestInvalid` for bytes that are no archive.
    public func replay(
        har: [UInt8],
        named name: String = "The recording",
        matchesBodies: Bool = false,
        repeatsLast: Bool = false
    ) throws(SessionError) {
        let exchanges = try HARReader(name: name).exchanges(har)
        use(HARReplay(exchanges, name: name, matchesBodies: matchesBodies, repeatsLast: repeatsLast))
    }
}
