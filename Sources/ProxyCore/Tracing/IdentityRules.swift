// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ProxyConfiguration

/// Gives requests their trace and their id, by `tracing` and `requestID` of one generation. Belongs to the thread of its worker.
final class IdentityRules {
    private let fields: IdentityFields
    /// nil where `tracing` is off.
    private let sampling: TraceSampling?

    /// - Returns: nil where requests have neither trace nor id.
    init?(_ configuration: Configuration, pool: RandomPool = RandomPool()) {
        guard configuration.tracing != nil || configuration.requestID != nil else { return nil }
        sampling = configuration.tracing.map { TraceSampling($0.sample) }
        fields = IdentityFields(configuration, pool)
    }

    /// Continues the trace of a client's request, or begins one.
    func identify(_ head: borrowing RequestHead) -> RequestIdentity {
        RequestIdentity(
            fields,
            trace: sampling.map { TraceContext.read(head.fields) ?? beginTrace($0) },
            span: sampling == nil ? 0 : fields.makeNumber(),
            id: fields.idName.map { Self.id(named: $0, in: head.fields) ?? makeID() }
        )
    }

    private func beginTrace(_ sampling: TraceSampling) -> TraceContext {
        let identifier = TraceContext.TraceID(high: fields.makeNumber(), low: fields.makeNumber())
        let decision = sampling.keeps(identifier) ? TraceContext.sampled : 0
        return TraceContext(traceID: identifier, parent: 0, flags: TraceContext.random | decision)
    }

    // MARK: Ids

    /// Bytes of an id of a client.
    static let mostBytes = 128

    /// The client's id; nil for none, for several, and for one that could mean something where it is shown.
    private static func id(named name: [UInt8], in fields: borrowing HeaderFields) -> [UInt8]? {
        var found: [UInt8]?
        for index in 0..<fields.count where fields.name(at: index).equalsIgnoringCase(name.span) {
            let value = fields.value(at: index)
            guard found == nil, (1...mostBytes).contains(value.count) else { return nil }
            for place in 0..<value.count where !isOfID(value[place]) { return nil }
            found = Array(copying: value)
        }
        return found
    }

    /// Letters, digits, and the signs of UUIDs, Base64, and such.
    private static func isOfID(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="), UInt8(ascii: ":"), UInt8(ascii: "@"): true
        default: ASCII.isUnreserved(byte)
        }
    }

    /// 128 random bits.
    private func makeID() -> [UInt8] {
        var text: [UInt8] = []
        text.append(TraceContext.TraceID(high: fields.makeNumber(), low: fields.makeNumber()))
        return text
    }
}

/// Which of the traces that begin here are recorded: decided by random bits of the trace's id, so that other programs can come to the same
/// decision (the 56 bits of W3C Trace Context, level 2).
struct TraceSampling: Sendable {
    private let threshold: UInt64
    private static let bits: UInt64 = 1 << 56

    /// - Parameter share: from 0 to 1.
    init(_ share: Double) { threshold = UInt64(Double(Self.bits) * (1 - share)) }

    func keeps(_ identifier: TraceContext.TraceID) -> Bool { identifier.low & (Self.bits - 1) >= threshold }
}
