// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ServerTrust

@testable import SessionCore

/// Writes down what a stream tells, and does what the test hangs into it.
final class RecordingStream: LoopStreamTaskDelegate {
    private(set) var isConnected = false
    private(set) var body: [UInt8] = []
    private(set) var isReadClosed = false
    private(set) var completions = 0
    private(set) var error: SessionError?
    private(set) var spaces = 0

    var onConnect: (LoopStreamTask) -> Void = { _ in }
    var onData: (LoopStreamTask) -> BodyFlow = { _ in .proceed }
    var onSpace: (LoopStreamTask) -> Void = { _ in }
    var onReadClosed: (LoopStreamTask) -> Void = { _ in }
    var mayTrust: (ConnectionTrust) -> SessionError? = { _ in nil }

    var isComplete: Bool { completions > 0 }
    var text: String { String(decoding: body, as: UTF8.self) }

    override func streamTask(_ task: LoopStreamTask, mayTrust trust: ConnectionTrust) -> SessionError? {
        mayTrust(trust)
    }

    override func streamTaskDidConnect(_ task: LoopStreamTask) {
        isConnected = true
        onConnect(task)
    }

    override func streamTask(_ task: LoopStreamTask, didReceive bytes: borrowing Span<UInt8>) -> BodyFlow {
        body.append(bytes)
        return onData(task)
    }

    override func streamTaskHasSpace(_ task: LoopStreamTask) {
        spaces += 1
        onSpace(task)
    }

    override func streamTaskReadClosed(_ task: LoopStreamTask) {
        isReadClosed = true
        onReadClosed(task)
    }

    override func streamTaskDidComplete(_ task: LoopStreamTask, error: SessionError?) {
        completions += 1
        self.error = error
    }
}

extension TestSession {
    /// Makes a stream and dials.
    @discardableResult
    func open(
        _ delegate: RecordingStream,
        _ endpoint: Endpoint,
        _ protocols: [ApplicationProtocol] = []
    ) -> LoopStreamTask {
        let stream = manager.streamTask(with: endpoint, applicationProtocols: protocols, delegate: delegate)
        stream.resume()
        return stream
    }

    func finish(_ delegate: RecordingStream) throws {
        try run(until: "a stream to complete") { delegate.isComplete }
    }
}

extension LoopStreamTask {
    func send(_ text: String) { send(Array(text.utf8).span) }
}
