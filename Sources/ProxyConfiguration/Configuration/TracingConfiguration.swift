// SPDX-License-Identifier: Apache-2.0
package import HTTPCore

/// `tracing`: requests belong to traces (W3C Trace Context).
package struct TracingConfiguration: Equatable, Sendable {
    /// The share of the traces that begin here of which spans are recorded, from 0 to 1. Other requests are as their callers say.
    package var sample = 0.01
    /// The receiver of spans; nil where none are sent.
    package var collector: TraceCollector?
    package var compression = Compression.none
    /// Fields of the requests to the collector.
    package var headers = FieldChanges()

    package init() {}

    /// The coding of the messages to the collector.
    package enum Compression: String, CaseIterable, Sendable {
        case none
        case gzip
    }
}

/// A receiver of spans by OTLP over HTTP.
package struct TraceCollector: Hashable, Sendable {
    /// As in the configuration: what the path of each signal is added to.
    package let url: AbsoluteURL

    package init(_ url: AbsoluteURL) { self.url = url }

    /// The target of requests.
    package var target: [UInt8] {
        let base = url.rest.last == UInt8(ascii: "/") ? Array(url.rest.dropLast()) : url.rest
        return base + Array("/v1/traces".utf8)
    }
}

/// `requestID`: each request has an id, in a field.
package struct RequestIDConfiguration: Hashable, Sendable {
    /// The name of the field.
    package var field: String

    package init(field: String) { self.field = field }
}
