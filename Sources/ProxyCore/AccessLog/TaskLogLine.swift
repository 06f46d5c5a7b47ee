// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ServerTrust
import SessionCore

/// Writes the task log: one JSON object a line, with the names and units of `docs/task-log.md`. What a line is about, a request
/// of a client or a refresh of the cache, has its own `write` beside its type.
struct TaskLogLine {
    /// The parameters whose values are masked, as `significant` leaves their names.
    private let redacted: [[UInt8]]
    private var clock = CachedTimestamp()

    init(redacting parameters: [String]) {
        redacted = parameters.map(Self.significant).filter { !$0.isEmpty }
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

    /// Writes the target, with the values of secret parameters masked, in the query and in segments of the path
    /// (`/a;token=…`).
    func writeTarget(_ target: borrowing Span<UInt8>, to line: inout ByteBuffer) {
        guard !redacted.isEmpty else { return line.append(jsonEscaping: target) }
        let query = target.firstIndex(of: UInt8(ascii: "?")) ?? target.count
        var position = 0
        while position < target.count {
            let end = Self.endOfPart(target, from: position, query: query)
            let part = target.extracting(position..<end)
            if let equals = part.firstIndex(of: UInt8(ascii: "=")), isRedacted(part.extracting(0..<equals)) {
                line.append(jsonEscaping: part.extracting(0..<(equals + 1)))
                line.append("***")
                position = Self.endOfValue(target, from: end, query: query)
            } else {
                line.append(jsonEscaping: part)
                position = end
            }
            guard position < target.count else { return }
            // What separates it from the next one.
            line.append(jsonEscaping: target.extracting(position..<(position + 1)))
            position += 1
        }
    }

    /// The end of what may be a name with a value. Some origins separate parameters with `;`, and begin the query at its
    /// last `?`.
    private static func endOfPart(_ target: borrowing Span<UInt8>, from start: Int, query: Int) -> Int {
        var position = start
        while position < target.count {
            switch target[position] {
            case UInt8(ascii: "?"), UInt8(ascii: ";"): return position
            case UInt8(ascii: "&") where position > query: return position
            case UInt8(ascii: "/") where position < query: return position
            default: position += 1
            }
        }
        return position
    }

    /// The end of a value by the most generous reading: to other origins `;` and `?` are parts of it.
    private static func endOfValue(_ target: borrowing Span<UInt8>, from start: Int, query: Int) -> Int {
        guard start > query else { return min(target.firstIndex(of: UInt8(ascii: "/"), from: start) ?? query, query) }
        return target.firstIndex(of: UInt8(ascii: "&"), from: start) ?? target.count
    }

    private func isRedacted(_ name: borrowing Span<UInt8>) -> Bool {
        for parameter in redacted where Self.means(name, parameter) { return true }
        return false
    }

    /// Whether a name means that parameter to some origin. Origins decode names, and ignore or change in them case, signs,
    /// white space, and what stands in brackets (`tok[]`, `tok[1]`).
    ///
    /// - Parameter parameter: as `significant` leaves it.
    private static func means(_ name: borrowing Span<UInt8>, _ parameter: [UInt8]) -> Bool {
        var position = 0
        var matched = 0
        while position < name.count {
            var byte = name[position]
            position += 1
            if byte == UInt8(ascii: "%"), position + 1 < name.count,
                let upper = ASCII.hexadecimalValue(name[position]),
                let lower = ASCII.hexadecimalValue(name[position + 1])
            {
                byte = UInt8(upper) << 4 | UInt8(lower)
                position += 2
            }
            if byte == UInt8(ascii: "[") || byte == 0 { break }
            guard isSignificant(byte) else { continue }
            guard matched < parameter.count, ASCII.lowercased(byte) == parameter[matched] else { return false }
            matched += 1
        }
        return matched == parameter.count
    }

    private static func isSignificant(_ byte: UInt8) -> Bool {
        ASCII.isLetter(byte) || ASCII.isDigit(byte) || byte >= 0x80
    }

    /// The bytes of a name that are compared, in lower case.
    private static func significant(_ name: String) -> [UInt8] {
        let bytes = Array(name.utf8)
        let end = bytes.dropFirst().firstIndex(of: UInt8(ascii: "[")) ?? bytes.count
        return bytes[..<end].filter(isSignificant).map(ASCII.lowercased)
    }

    func write(
        _ transaction: TransactionMetrics,
        _ evaluation: TrustEvaluation?,
        url: Range<Int>,
        to line: inout ByteBuffer
    ) {
        line.append("{\"url\":\"")
        line.append(copyOf: url)
        line.append("\"")
        write(transaction, evaluation, to: &line)
    }

    /// Writes the members of a transaction after its URL.
    func write(
        _ transaction: TransactionMetrics,
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
