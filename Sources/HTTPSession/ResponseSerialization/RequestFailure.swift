public import SessionCore

/// Why a request brought no object: it could not be made or carried out, or its answer is not what was asked for.
public indirect enum RequestFailure: Error, Sendable, CustomStringConvertible {
    /// There was no whole answer.
    case session(SessionError)
    /// There was an answer, and it is not what was asked for.
    case serialization(ResponseSerializationError)
    /// An adapter did not let the request out.
    case adaptation(any Error)
    /// A retrier ended the request with an error of its own.
    case retry(any Error, original: RequestFailure)

    /// The answer, when there was one.
    public var response: DataResponse? { serializationError?.response }

    /// Of the latest attempt; nil where none went out.
    public var metrics: TaskMetrics? { sessionError?.metrics ?? response?.metrics }

    /// Of the latest attempt.
    public var sessionError: SessionError? {
        switch self {
        case .session(let error): error
        case .retry(_, let original): original.sessionError
        case .adaptation(let error): error as? SessionError
        case .serialization: nil
        }
    }

    /// Of the latest attempt.
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
        case .adaptation(let error): "The request was not let out: \(error)"
        case .retry(let error, let original):
            "The request was not made again: \(error) It had failed before: \(original)"
        }
    }
}
