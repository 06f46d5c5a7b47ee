import IOCore

/// The result of a name lookup.
typealias NameAnswer = Result<[SocketAddress], NameFailure>

/// Why a name has no address.
struct NameFailure: Error, Equatable, Sendable {
    enum Reason: Sendable {
        /// The resolver says that there is none.
        case unknown
        /// No name server has responded in time.
        case silent
        /// The process has no descriptor left.
        case withoutDescriptor
        case failed
    }

    let reason: Reason
    /// The resolver's own words.
    let words: String
}
