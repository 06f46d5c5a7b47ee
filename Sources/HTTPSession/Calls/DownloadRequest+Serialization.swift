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
        let box = HandOver<Result<SerializedDownload<Serializer.Output>, RequestFailure>>()
        await withTaskCancellationHandler {
            await run(serializer, box)
        } onCancel: {
            cancel()
        }
        return try box.consume().get()
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
        let box = HandOver<Result<SerializedDownload<Serializer.Output>, RequestFailure>>()
        Task(executorPreference: BlockingThreads.shared) { [self] in
            await run(serializer, box)
            (queue ?? manager.session.thread.callbacks).enqueue { completionHandler(box.consume()) }
        }
        return self
    }

    @concurrent
    private func run<Serializer: ResponseSerializer>(
        _ serializer: Serializer,
        _ box: HandOver<Result<SerializedDownload<Serializer.Output>, RequestFailure>>
    ) async {
        do throws(SessionError) { try beginOnce() } catch { return box.put(.failure(.session(error))) }
        defer { finish() }
        do throws(RequestFailure) {
            while true {
                do throws(RequestFailure) {
                    let response = try await attempt()
                    let value = try serialize(response, try await contents(of: response), serializer)
                    return box.put(.success(SerializedDownload(value: value, response: response)))
                } catch {
                    try await waitToRetry(after: error)
                }
            }
        } catch {
            box.put(.failure(error))
        }
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

    private func serialize<Serializer: ResponseSerializer>(
        _ response: DownloadResponse,
        _ bytes: [UInt8],
        _ serializer: Serializer
    ) throws(RequestFailure) -> sending Serializer.Output {
        let dataResponse = DataResponse(
            response: response.response,
            data: bytes,
            trailers: HTTPFields(),
            metrics: response.metrics
        )
        do throws(ResponseSerializationError) {
            let value = try serializer.serialize(dataResponse, to: request.method)
            notifyMonitors { $0.request(self, didParse: dataResponse, failure: nil) }
            return value
        } catch {
            notifyMonitors { $0.request(self, didParse: dataResponse, failure: .serialization(error)) }
            throw .serialization(error)
        }
    }
}
