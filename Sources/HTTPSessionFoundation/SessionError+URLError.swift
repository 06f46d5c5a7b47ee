public import Foundation
public import SessionCore

extension SessionError {
    /// The same in Foundation's terms, for code that looks at `URLError.Code`. `details` is the localized description,
    /// the whole error stands under `NSUnderlyingErrorKey`.
    ///
    /// Codes that Foundation has no word for take the nearest that makes a program refuse: every failed pin is
    /// `serverCertificateUntrusted`.
    public var urlError: URLError {
        URLError(urlErrorCode, userInfo: [NSLocalizedDescriptionKey: details, NSUnderlyingErrorKey: self])
    }

    private var urlErrorCode: URLError.Code {
        switch code {
        case .pinMismatch, .pinForbidden, .pinSetExpired, .certificateRevoked, .stapleMissing, .certificateUntrusted,
            .certificateHostMismatch:
            .serverCertificateUntrusted
        case .certificateExpired: .serverCertificateHasBadDate
        case .tlsHandshakeFailed: .secureConnectionFailed
        case .dnsFailed: .cannotFindHost
        case .dnsTimeout, .connectTimeout, .responseTimeout, .stalled, .limitReached: .timedOut
        case .connectFailed, .addressDenied: .cannotConnectToHost
        case .responseInvalid: .badServerResponse
        case .responseTruncated: .networkConnectionLost
        case .responseTooLarge: .dataLengthExceedsMaximum
        case .requestInvalid: .badURL
        case .redirectDenied: .redirectToNonExistentLocation
        case .notStored: .resourceUnavailable
        case .fileFailed: .cannotWriteToFile
        case .cancelled, .sessionInvalidated: .cancelled
        case .internal: .unknown
        }
    }
}
