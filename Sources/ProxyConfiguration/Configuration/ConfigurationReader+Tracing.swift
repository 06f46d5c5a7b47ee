// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import StrictJSON

extension ConfigurationReader {
    mutating func readTracing(_ object: DocumentObject) {
        comment(object)
        var tracing = TracingConfiguration()
        tracing.collector = object["otlp"]?.collector()
        if let fields = object.object("headers") { readCollectorFields(fields, into: &tracing.headers, object) }
        if let coding = object["compression"]?.choice(TracingConfiguration.Compression.self) {
            tracing.compression = coding
        }
        if let element = object["sample"], let share = element.share() { tracing.sample = share }
        object.finish()
        configuration.tracing = tracing
    }

    /// Reads the fields of requests to the collector: a key that it asks for.
    private func readCollectorFields(
        _ fields: DocumentObject,
        into headers: inout FieldChanges,
        _ tracing: DocumentObject
    ) {
        readFields(fields, into: &headers, adds: false)
        for (name, element) in fields.entries {
            // Setting a field also removes those whose names differ in case or punctuation alone.
            guard ["content-type", "content-encoding"].contains(Self.folded(name)) else { continue }
            element.report("\(name) is that of the spans, and made by pinproxy alone", remedy: "take it out")
        }
        fields.finish()
        if !tracing.has("otlp") {
            fields.element.report("fields for a collector, and there is none", remedy: "add \"otlp\", or take it out")
        }
    }

    mutating func readRequestID(_ object: DocumentObject) {
        comment(object)
        let element = object.required("field")
        object.finish()
        guard let element, let name = element.string(), fieldName(name, element) else { return }
        if !Self.isOfIDs(name) {
            element.report(
                "a field for ids of requests has a name that ends in \"-Id\", and no other meaning",
                remedy: "name a field for ids alone, as \"X-Request-Id\""
            )
        }
        configuration.requestID = RequestIDConfiguration(field: name)
    }
}

extension ConfigurationReader {
    /// Neither the value nor the absence of a field with another meaning is to be changed by mistake: event streams (Last-Event-ID),
    /// MIME, sessions (`Mcp-Session-Id`) and browsers (`Sec-`) have ids of their own.
    fileprivate static func isOfIDs(_ name: String) -> Bool {
        let folded = Self.folded(name)
        guard folded.hasSuffix("-id") || name.hasSuffix("Id") || name.hasSuffix("ID") else { return false }
        let others = ["last-event-id", "content-id", "message-id"]
        return !folded.hasPrefix("sec-") && !folded.hasSuffix("session-id") && !others.contains(folded)
    }
}

extension DocumentElement {
    /// Reads the address of a collector.
    fileprivate func collector() -> TraceCollector? {
        guard let text = string() else { return nil }
        guard let url = AbsoluteURL(text),
            !url.rest.contains(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") })
        else {
            report(
                "no http or https URL without query and fragment",
                remedy: "write the collector's address, as \"http://127.0.0.1:4318\"; /v1/traces is added"
            )
            return nil
        }
        return TraceCollector(url)
    }

    /// Reads a number from 0 to 1.
    fileprivate func share() -> Double? {
        if case .number(let text) = value.content, let number = Double(text), (0...1).contains(number) { return number }
        report("not a number from 0 to 1", remedy: "write the share: 0.01 is one of a hundred, 1 is all")
        return nil
    }
}
