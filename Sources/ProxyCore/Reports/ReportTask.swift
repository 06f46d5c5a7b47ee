// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import SessionCore

/// One attempt to deliver a report to its collector: a POST of which only the response's status counts. Redirects are
/// not followed.
final class ReportTask: LoopTaskDelegate {
    private let completion: (ReportOutcome) -> Void
    private var status = 0
    private var taken = 0
    /// A longer response body ends the connection instead of being read.
    private static let bodyLimit = 64 << 10

    init(_ completion: @escaping (ReportOutcome) -> Void) {
        self.completion = completion
    }

    /// Sends a report.
    static func start(
        _ report: [UInt8],
        to uri: ReportURI,
        at endpoint: Endpoint,
        on manager: LoopSession,
        _ completion: @escaping (ReportOutcome) -> Void
    ) {
        var fields = HeaderFields()
        fields.append(name: Array("Content-Type".utf8).span, value: Array("application/json".utf8).span)
        fields.append(name: Array("User-Agent".utf8).span, value: Array("pinproxy".utf8).span)
        let request = SessionRequest(
            endpoint: endpoint,
            method: .post,
            target: uri.target,
            fields: fields,
            bodyLength: .bytes(report.count)
        )
        let task = manager.dataTask(with: request, delegate: ReportTask(completion))
        task.send(report.span)
        task.finishSending()
        task.resume()
    }

    override func task(_ task: LoopTask, didReceive response: borrowing ResponseHead) -> ResponseDisposition {
        status = response.status
        return .allow
    }

    override func task(_ task: LoopTask, didReceive data: borrowing Span<UInt8>) -> BodyFlow {
        taken += data.count
        if taken > Self.bodyLimit { task.cancel() }
        return .proceed
    }

    override func taskDidComplete(_ task: LoopTask, error: SessionError?) {
        completion(status == 0 ? ReportOutcome(error) : ReportOutcome(status: status))
    }
}

extension ReportOutcome {
    /// The outcome for a response's status.
    init(status: Int) {
        switch status {
        case 200..<300: self = .delivered
        case 408, 429, 500..<600: self = .failed
        default: self = .refused
        }
    }

    /// The outcome for an attempt without a response. A failed pin is never tried again (invariant 13), and neither is
    /// a refusal by policy.
    init(_ error: SessionError?) {
        switch error?.code {
        case .dnsFailed, .dnsTimeout, .connectFailed, .connectTimeout, .responseTimeout, .stalled, .responseTruncated,
            .limitReached, .tlsHandshakeFailed, .clientCertificateRefused, .proxyHandshakeFailed, .proxyRefused,
            .cancelled, nil:
            self = .failed
        default:
            self = .refused
        }
    }
}
