// SPDX-License-Identifier: Apache-2.0
public import SessionCore

/// The failure of a request with a serializer: it could not be made or sent, or its response was rejected.
public indirect enum RequestFailure: Error, Sendable, CustomStringConvertible {
    /// There was no complete response.
    case session(SessionError)
    /// The response was rejected.
    case serialization(ResponseSerializationError)
    /// An adapter failed.
    case adaptation(any Error)
    /// A retrier ended the request with an error of its own.
    case retry(any Error, original: RequestFailure)

    /// The rejected response; nil for other failures.
    public var response: DataResponse? { serializationError?.response }

    /// The metrics of the latest attempt; nil when nothing was sent.
    public var metrics: TaskMetrics? { sessionError?.metrics ?? response?.metrics }

    /// The session's error in the latest attempt; nil for other failures.
    public var sessionError: SessionError? {
        switch self {
        case .session(let error): error
        case .retry(_, let original): original.sessionError
        case .adaptation(let error): Self.sessionError(in: error)
        case .serialization: nil
        }
    }

    private static func sessionError(in error: any Error) -> SessionError? {
        switch error {
        case let error as SessionError: error
        case let failure as RequestFailure: failure.sessionError
        case let refresh as CredentialRefreshError: sessionError(in: refresh.underlying)
        default: nil
        }
    }

    /// Whether the request failed because it was cancelled: by the program, a hook, the calling Swift task, or the session's end.
    public var isCancelled: Bool { sessionError?.code == .cancelled }

    /// The serializer's error in the latest attempt; nil for other failures.
    public var serializationError: ResponseSerializationError? {
        switch self {
        case .serialization(let error): error
        case .retry(_, let original): original.serializationError
        case .session, .adaptation: nil
        }
    }

    public var description: String {
        switch self {
        case .session(let error): error.description
        case .serialization(let error): error.description
        case .adaptation(let error): "The request was not sent, since an adapter failed: \(error)"
        case .retry(let error, let original):
            "The request was not sent again, since a retrier failed: \(error) The failure before: \(original)"
        }
    }
}
