// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

/// One attempt to deliver spans to a collector: a POST (OTLP/HTTP with protobuf). Redirects are not followed.
final class SpanDelivery: LoopTaskDelegate {
    typealias Outcome = SpanQueue<SpanRecord>.Outcome

    /// The reason why an attempt did not deliver.
    enum Failure {
        case error(SessionError)
        case status(Int)

        /// The code of the error, or the response's status.
        var reason: String {
            switch self {
            case .error(let error): error.code.rawValue
            case .status(let status): "status \(status)"
            }
        }
    }

    /// The body of a request.
    struct Message {
        let bytes: [UInt8]
        let isCompressed: Bool

        /// Compresses the bytes if that is wanted and memory is there.
        init(_ bytes: [UInt8], _ compression: TracingConfiguration.Compression) {
            let compressed = compression == .gzip ? Deflater.compress(bytes, as: .gzip) : nil
            self.bytes = compressed ?? bytes
            isCompressed = compressed != nil
        }
    }

    private let completion: (Outcome, Failure?) -> Void
    private var status = 0
    private var retryAfter: Int64 = 0
    private var taken = 0
    /// A longer response ends the connection instead of being read.
    private static let bodyLimit = 64 << 10

    private static let retryAfterName: StaticString = "Retry-After"

    private init(_ completion: @escaping (Outcome, Failure?) -> Void) { self.completion = completion }

    /// - Parameter headers: further fields, secrets among them.
    static func start(
        _ message: Message,
        to collector: TraceCollector,
        _ headers: FieldChanges,
        at endpoint: Endpoint,
        on session: LoopSession,
        _ completion: @escaping (Outcome, Failure?) -> Void
    ) {
        var fields = HeaderFields()
        fields.append(.contentType, "application/x-protobuf")
        if message.isCompressed { fields.append(.contentEncoding, "gzip") }
        fields.append(.userAgent, "pinproxy")
        headers.apply(to: &fields)
        let request = SessionRequest(
            endpoint: endpoint,
            method: .post,
            target: collector.target,
            fields: fields,
            bodyLength: .bytes(message.bytes.count)
        )
        let task = session.dataTask(with: request, delegate: SpanDelivery(completion))
        task.send(message.bytes.span)
        task.finishSending()
        task.resume()
    }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        status = response.status
        if let index = response.fields.first(named: Self.retryAfterName.bytes) {
            let text = String(decoding: [UInt8](copying: response.fields.value(at: index)), as: UTF8.self)
            retryAfter = Int64(text).map { max(0, min($0, 3600)) * 1000 } ?? 0
        }
        return .allow
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        taken += data.count
        if taken > Self.bodyLimit { task.cancel() }
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        if status == 0 {
            completion(Self.outcome(of: error), error.map { .error($0) })
        } else {
            completion(Self.outcome(status: status, retryAfter), .status(status))
        }
    }

    /// By the rules of OTLP: these four statuses alone may be tried again.
    static func outcome(status: Int, _ retryAfter: Int64 = 0) -> Outcome {
        switch status {
        case 200..<300: .delivered
        case 429, 502, 503, 504: .failed(after: retryAfter)
        default: .refused
        }
    }

    /// A failed pin is never tried again, and neither is a refusal by policy.
    static func outcome(of error: SessionError?) -> Outcome {
        switch ReportOutcome(error) {
        case .failed: .failed(after: 0)
        case .delivered, .refused: .refused
        }
    }
}
