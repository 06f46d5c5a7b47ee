// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import SessionCore

/// A complete download, and the object that a serializer has made from its file.
public struct SerializedDownload<Value> {
    /// The serialized object.
    public let value: Value
    /// Head, file and metrics.
    public let response: DownloadResponse
}

extension SerializedDownload: Sendable where Value: Sendable {}

extension SerializedDownload {
    /// The same download with another value, as Alamofire's `map` and `tryMap` make it.
    ///
    /// - Parameter transform: makes the value; what it throws is thrown.
    public func map<Other, Failure: Error>(
        _ transform: (Value) throws(Failure) -> Other
    ) throws(Failure) -> SerializedDownload<Other> {
        SerializedDownload<Other>(value: try transform(value), response: response)
    }
}

extension DownloadRequest {
    /// Carries the request out, reads the file and serializes it, neither on the session's loop nor on the caller's
    /// actor. The file stays where it is, also when the serializer fails. When the calling Swift task is cancelled, the
    /// request is cancelled.
    ///
    /// - Parameter serializer: gets the file as the body of a response; a file longer than `maximumBodySize` fails with
    ///   `responseTooLarge`.
    @concurrent
    public func response<Serializer: ResponseSerializer>(
        serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedDownload<Serializer.Output> {
        try await outcome(
            of: { () throws(RequestFailure) in try await serialized(try await attempt(), serializer) },
            orJoining: { () throws(RequestFailure) in try await serialized(try receivedAlready(), serializer) }
        )
    }

    /// The same, with a handler for the result.
    ///
    /// - Parameters:
    ///   - serializer: gets the file as the body of a response.
    ///   - queue: the handler's queue; nil for the session's callback queue.
    ///   - completionHandler: called once, also after `cancel`.
    /// - Returns: this request.
    @discardableResult
    public func response<Serializer: ResponseSerializer>(
        serializer: Serializer,
        queue: CallbackQueue? = nil,
        completionHandler:
            @escaping @Sendable (
                sending Result<SerializedDownload<Serializer.Output>, RequestFailure>
            ) -> Void
    ) -> DownloadRequest {
        begin(
            { () throws(RequestFailure) in try await self.serialized(try await self.attempt(), serializer) },
            orJoining: { () throws(RequestFailure) in try await self.serialized(try self.receivedAlready(), serializer)
            },
            queue: queue,
            completionHandler: completionHandler
        )
        return self
    }

    private func serialized<Serializer: ResponseSerializer>(
        _ response: DownloadResponse,
        _ serializer: Serializer
    ) async throws(RequestFailure) -> sending SerializedDownload<Serializer.Output> {
        let content = DataResponse(
            response: response.response,
            url: response.url,
            data: try await contents(of: response),
            trailers: HeaderFields(),
            metrics: response.metrics
        )
        return SerializedDownload(value: try serialize(content, serializer), response: response)
    }

    private func contents(of response: DownloadResponse) async throws(RequestFailure) -> [UInt8] {
        let limit = manager.configuration.maximumBodySize
        do {
            let reader = try FileBodyReader(response.path)
            guard reader.length <= limit else {
                throw SessionError(.responseTooLarge, "The file is longer than maximumBodySize (\(limit) bytes).")
            }
            var bytes: [UInt8] = []
            bytes.reserveCapacity(reader.length)
            while bytes.count < reader.length { bytes += try await reader.read(atMost: 1 << 20) }
            return bytes
        } catch let error as SessionError where error.code == .responseTooLarge {
            throw .session(error)
        } catch {
            throw .session(SessionError(.fileFailed, "\(response.path) cannot be read again: \(error)"))
        }
    }
}
