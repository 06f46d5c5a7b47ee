// SPDX-License-Identifier: Apache-2.0
public import Foundation
public import SessionCore

extension SessionError {
    /// The error in Foundation's terms, for code that uses `URLError.Code`. `details` is the localized description, and
    /// the original error has the key `NSUnderlyingErrorKey`.
    ///
    /// A code without a counterpart is mapped to the nearest one that makes a program stop: every failed pin is
    /// `serverCertificateUntrusted`.
    public var urlError: URLError {
        URLError(urlErrorCode, userInfo: [NSLocalizedDescriptionKey: details, NSUnderlyingErrorKey: self])
    }

    private var urlErrorCode: URLError.Code {
        switch code {
        case .pinMismatch, .pinForbidden, .pinSetExpired, .certificateRevoked, .stapleMissing, .certificateUntrusted,
            .certificateHostMismatch, .credentialWithheld:
            .serverCertificateUntrusted
        case .certificateExpired: .serverCertificateHasBadDate
        case .clientCertificateRefused: .clientCertificateRejected
        case .tlsHandshakeFailed, .proxyUntrusted, .proxyHandshakeFailed: .secureConnectionFailed
        case .dnsFailed: .cannotFindHost
        case .dnsTimeout, .connectTimeout, .responseTimeout, .stalled, .limitReached: .timedOut
        case .connectFailed, .proxyRefused, .addressDenied: .cannotConnectToHost
        case .responseInvalid: .badServerResponse
        case .responseTruncated: .networkConnectionLost
        case .responseTooLarge: .dataLengthExceedsMaximum
        case .requestInvalid: .badURL
        case .redirectDenied: .redirectToNonExistentLocation
        case .notStored: .resourceUnavailable
        case .fileFailed: .cannotWriteToFile
        case .cancelled: .cancelled
        case .sessionInvalidated: .backgroundSessionWasDisconnected
        case .internal: .unknown
        }
    }
}
