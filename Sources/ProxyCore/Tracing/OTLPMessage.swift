// SPDX-License-Identifier: Apache-2.0

/// The message of OTLP for spans: `ExportTraceServiceRequest`
/// (`opentelemetry/proto/collector/trace/v1/trace_service.proto`).
enum OTLPMessage {
    /// - Parameter version: of this program.
    static func request(_ spans: [OTLPSpan], version: String, instance: [UInt8]) -> [UInt8] {
        var message = ProtobufWriter()
        message.writeMessage(at: 1) { resourceSpans in
            resourceSpans.writeMessage(at: 1) { resource in
                write("service.name", .text(Array("pinproxy".utf8)), at: 1, to: &resource)
                if !version.isEmpty {
                    write("service.version", .text(Array(version.utf8)), at: 1, to: &resource)
                }
                write("service.instance.id", .text(instance), at: 1, to: &resource)
            }
            resourceSpans.writeMessage(at: 2) { scopeSpans in
                scopeSpans.writeMessage(at: 1) { $0.writeText(Array("pinproxy".utf8), at: 1) }
                for span in spans { scopeSpans.writeMessage(at: 2) { write(span, to: &$0) } }
            }
        }
        return message.bytes
    }

    private static func write(_ span: OTLPSpan, to message: inout ProtobufWriter) {
        message.writeIdentifier(span.trace.high, span.trace.low, at: 1)
        message.writeIdentifier(span.span, at: 2)
        message.write(span.state, at: 3)
        message.writeIdentifier(span.parent, at: 4)
        message.write(Array(span.name.utf8), at: 5)
        message.write(span.kind.rawValue, at: 6)
        message.writeFixed64(span.start, at: 7)
        message.writeFixed64(span.end, at: 8)
        for attribute in span.attributes { write(attribute.key, attribute.value, at: 9, to: &message) }
        if span.hasFailed { message.writeMessage(at: 15) { $0.write(failed, at: 3) } }
        message.writeFixed32(UInt32(span.flags) | knowsParent | (span.hasRemoteParent ? remoteParent : 0), at: 16)
    }

    /// `STATUS_CODE_ERROR`.
    private static let failed: UInt64 = 2
    /// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`.
    private static let knowsParent: UInt32 = 0x100
    /// `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`.
    private static let remoteParent: UInt32 = 0x200

    private static func write(
        _ key: String,
        _ value: OTLPSpan.Value,
        at field: UInt64,
        to message: inout ProtobufWriter
    ) {
        message.writeMessage(at: field) { pair in
            pair.write(Array(key.utf8), at: 1)
            pair.writeMessage(at: 2) { any in
                switch value {
                case .text(let text): any.writeText(text, at: 1)
                case .flag(let flag): any.writeNumber(flag ? 1 : 0, at: 2)
                case .number(let number): any.writeNumber(UInt64(bitPattern: Int64(number)), at: 3)
                case .list(let element):
                    any.writeMessage(at: 5) { list in
                        list.writeMessage(at: 1) { $0.writeText(element, at: 1) }
                    }
                }
            }
        }
    }
}
