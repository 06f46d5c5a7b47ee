import HTTPCore
import IOCore
import SessionCore

/// What is done with the head that counts.
extension TaskExecution {
    func deliver(_ head: ResponseHead, to task: SessionTask) -> ResponseDisposition {
        coding = asksForCoding ? ContentCoding(head) : nil
        let expected = expectedLength(head)
        if let coding, let plain = sink {
            guard let decoding = DecodingSink(plain, coding) else {
                failure = SessionError(.internal, "There is no memory to decode the answer's body in.")
                return .cancel
            }
            sink = decoding
        }
        task.delegate.reset()
        task.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        task.didReceive(head, expected: expected.map { Int64($0) })
        switch sink?.receive(head, expected: expected) ?? .accept {
        case .accept: return .allow
        case .ask(let request): return drop(head, then: request)
        case .end(let error):
            failure = error
            return .cancel
        case .becomeDownload: return becomeDownload(head, expected, task)
        }
    }

    /// Has the answer read to its end, or cut off, and goes on with another request.
    func drop(_ head: borrowing ResponseHead, then following: HTTPRequest) -> ResponseDisposition {
        next = following
        if case .length(let count) = head.framing, count > Self.dropLimit { return .cancel }
        return .allow
    }

    func becomeDownload(_ head: ResponseHead, _ expected: Int?, _ task: SessionTask) -> ResponseDisposition {
        guard let data = task as? DataTask, let machine = data.handOver() else { return .cancel }
        let download = DownloadTask(
            takingOver: data,
            machine,
            delegate: DownloadTaskDelegate(callbacks: session.callbacks)
        )
        download.adopt(self)
        session.table.insert(download)
        session.table.remove(data)
        self.task = download
        let file = DownloadSink(download, execution: self)
        let sink: BodySink = coding.flatMap { DecodingSink(file, $0) } ?? file
        self.sink = sink
        download.delegate.noteResponse(at: session.loop.wallClock - metrics.fetchStart)
        download.didReceive(head, expected: expected.map { Int64($0) })
        session.hookBox.hooks.dataTaskDidBecomeDownloadTask?(data, download)
        let error = SessionError(.cancelled, "The task goes on as download task \(download.taskIdentifier).")
        data.replaced(error)
        data.delegate.finish(error, metrics)
        data.delegate.release()
        _ = sink.receive(head, expected: expected)
        // What is on the disk is not what a range would be of.
        file.mayBeResumed = coding == nil
        return .allow
    }

    func expectedLength(_ head: ResponseHead) -> Int? {
        guard coding == nil else { return nil }
        return switch head.framing {
        case .none: 0
        case .length(let count): count
        default: nil
        }
    }
}
