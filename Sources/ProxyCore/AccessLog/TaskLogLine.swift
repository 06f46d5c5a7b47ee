// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
package import IOCore
import ServerTrust
import SessionCore

/// Writes the task log: one JSON object a line, with the names and units of `docs/task-log.md`. What a line is about, a request
/// of a client or a refresh of the cache, has its own `write` beside its type.
package struct TaskLogLine {
    private let secrets: SecretParameters
    private var clock = CachedTimestamp()

    /// - Parameter parameters: the names of the parameters of URLs whose values are masked.
    package init(redacting parameters: [String]) {
        secrets = SecretParameters(parameters)
    }

    mutating func writeBeginning(
        _ startTime: Int64,
        _ task: LoopTask?,
        client: borrowing Span<UInt8>,
        to line: inout ByteBuffer
    ) {
        line.append("{\"time\":\"")
        clock.append(unixMilliseconds: Int(startTime / 1000), to: &line)
        line.append("\",\"event\":\"task\"")
        if let task {
            line.append(",\"taskIdentifier\":")
            line.append(decimal: Int(task.taskIdentifier))
        }
        line.append(",\"client\":\"")
        // The address of a socket, which holds nothing that JSON escapes.
        line.append(client)
        line.append("\"")
    }

    func write(_ outcome: CacheOutcome, to line: inout ByteBuffer) {
        line.append(",\"cache\":\"")
        line.append(outcome.text)
        line.append("\"")
    }

    func writePlace(_ prefix: [UInt8], _ target: [UInt8], to line: inout ByteBuffer) {
        line.append("{\"url\":\"")
        line.append(prefix)
        writeTarget(target.span, to: &line)
        line.append("\"")
    }

    /// Writes the target, with the values of secret parameters masked.
    package func writeTarget(_ target: borrowing Span<UInt8>, to line: inout ByteBuffer) {
        // Most targets have no parameter, and are looked at once.
        guard !secrets.isEmpty, target.firstIndex(of: UInt8(ascii: "=")) != nil else {
            return line.append(jsonEscaping: target)
        }
        mask(target) { line.append(jsonEscaping: $0) }
    }

    /// The target as it is, with the values of secret parameters masked.
    func masked(_ target: borrowing Span<UInt8>) -> [UInt8] {
        var text: [UInt8] = []
        mask(target) { text.append($0) }
        return text
    }

    /// Calls `write` with the pieces of a target.
    private func mask(_ target: borrowing Span<UInt8>, _ write: (borrowing Span<UInt8>) -> Void) {
        var search = SecretParameters.Search(target)
        var written = 0
        while let value = secrets.next(in: target, &search) {
            write(target.extracting(written..<value.lowerBound))
            write(Self.mask.bytes)
            written = value.upperBound
        }
        write(target.extracting(written..<target.count))
    }

    private static let mask: StaticString = "***"

    /// - Parameter transaction: is not changed, but lent (`LoopTask.lendTransaction`).
    func write(
        _ transaction: inout TransactionMetrics,
        _ evaluation: TrustEvaluation?,
        url: Range<Int>,
        to line: inout ByteBuffer
    ) {
        line.append("{\"url\":\"")
        line.append(copyOf: url)
        line.append("\"")
        write(&transaction, evaluation, to: &line)
    }

    /// Writes the members of a transaction after its URL.
    func write(
        _ transaction: inout TransactionMetrics,
        _ evaluation: TrustEvaluation?,
        to line: inout ByteBuffer
    ) {
        if transaction.status > 0 {
            line.append(",\"status\":")
            line.append(decimal: transaction.status)
        }
        time(",\"fetchStart\":", transaction.fetchStart, &line)
        time(",\"domainLookupStart\":", transaction.domainLookupStart, &line)
        time(",\"domainLookupEnd\":", transaction.domainLookupEnd, &line)
        time(",\"connectStart\":", transaction.connectStart, &line)
        time(",\"proxySecureConnectionStart\":", transaction.proxySecureConnectionStart, &line)
        time(",\"proxySecureConnectionEnd\":", transaction.proxySecureConnectionEnd, &line)
        time(",\"secureConnectionStart\":", transaction.secureConnectionStart, &line)
        time(",\"secureConnectionEnd\":", transaction.secureConnectionEnd, &line)
        time(",\"connectEnd\":", transaction.connectEnd, &line)
        time(",\"requestStart\":", transaction.requestStart, &line)
        time(",\"requestEnd\":", transaction.requestEnd, &line)
        time(",\"responseStart\":", transaction.responseStart, &line)
        time(",\"responseEnd\":", transaction.responseEnd, &line)
        line.append(",\"requestHeaderBytesSent\":")
        line.append(decimal: Int(transaction.requestHeaderBytesSent))
        line.append(",\"requestBodyBytesSent\":")
        line.append(decimal: Int(transaction.requestBodyBytesSent))
        line.append(",\"responseHeaderBytesReceived\":")
        line.append(decimal: Int(transaction.responseHeaderBytesReceived))
        line.append(",\"responseBodyBytesReceived\":")
        line.append(decimal: Int(transaction.responseBodyBytesReceived))
        switch transaction.protocolVersion {
        case 20: line.append(",\"networkProtocolName\":\"h2\"")
        case 11: line.append(",\"networkProtocolName\":\"http/1.1\"")
        case 10: line.append(",\"networkProtocolName\":\"http/1.0\"")
        default: break
        }
        line.append(transaction.isReusedConnection ? ",\"reusedConnection\":true" : ",\"reusedConnection\":false")
        if let connection = transaction.connection {
            line.append(connection.logMembers)
            if let proxy = connection.proxy { write(proxy, isReused: transaction.isReusedConnection, &line) }
        }
        if let evaluation, !transaction.isReusedConnection { offeredPins(evaluation, &line) }
        line.append("}")
    }

    /// Writes the facts about TLS to an HTTPS proxy.
    private func write(_ proxy: ProxyConnectionInfo, isReused: Bool, _ line: inout ByteBuffer) {
        line.append(",\"proxy\":{\"authority\":\"")
        line.append(proxy.authority.bytes)
        line.append("\"")
        line.appendTLSMembers(proxy.tlsVersion, proxy.cipher, proxy.tlsGroup)
        line.append(proxy.note)
        if let evaluation = proxy.evaluation, !isReused { offeredPins(evaluation, &line) }
        line.append("}")
    }

    /// Writes the keys that the server of a new TLS connection presented, leaf first.
    private func offeredPins(_ evaluation: TrustEvaluation, _ line: inout ByteBuffer) {
        var text = Array(",\"offeredPins\":[".utf8)
        text.reserveCapacity(text.count + 54 * evaluation.chain.count)
        for certificate in evaluation.chain {
            if text.last != UInt8(ascii: "[") { text.append(UInt8(ascii: ",")) }
            text += "\"sha256/".utf8
            certificate.publicKeyPin.appendBase64(to: &text)
            text.append(UInt8(ascii: "\""))
        }
        line.append(text)
        line.append("]")
    }

    @inline(__always)
    private func time(_ name: StaticString, _ value: Int64, _ line: inout ByteBuffer) {
        guard value != TransactionMetrics.absent else { return }
        line.append(name)
        line.append(milliseconds: value)
    }
}
