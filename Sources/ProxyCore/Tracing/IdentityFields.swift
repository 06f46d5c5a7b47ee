// SPDX-License-Identifier: Apache-2.0
import ProxyConfiguration

/// The fields that the proxy writes in place of a client's and an origin's, and a stock of random numbers for what is in them. Belongs to
/// the thread of its worker.
final class IdentityFields {
    /// The name of the field for ids; nil without `requestID`.
    let idName: [UInt8]?
    /// Removes from requests what the proxy writes itself.
    let ofRequests: FieldChanges
    /// The same of responses.
    let ofResponses: FieldChanges
    private var pool: RandomPool

    init(_ configuration: Configuration, _ pool: RandomPool) {
        idName = configuration.requestID.map { Array($0.field.utf8) }
        self.pool = pool
        var ofRequests = FieldChanges()
        var ofResponses = FieldChanges()
        if configuration.tracing != nil {
            ofRequests.remove("traceparent")
            ofRequests.remove("tracestate")
        }
        if let field = configuration.requestID?.field {
            ofRequests.remove(field)
            ofResponses.remove(field)
        }
        self.ofRequests = ofRequests
        self.ofResponses = ofResponses
    }

    /// A random number that is not zero.
    func makeNumber() -> UInt64 { pool.next() }
}
