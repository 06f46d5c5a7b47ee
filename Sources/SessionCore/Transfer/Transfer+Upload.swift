import CShims
import HTTPCore
import IOCore

/// The request body, as libcurl asks for it.
extension Transfer {
    /// Whether the origin has answered over HTTP/2 that it does not want the request, whose body waits for its client.
    /// libcurl sees the end of such an answer only when the request has ended too (RFC 9113, section 8.1, would let it).
    /// With HTTP/1.1, and where all is well, the body goes on: the origin may be reading it while it answers.
    private var isRefusedEarly: Bool {
        response.hasHead && response.head.majorVersion == 2 && response.head.status >= 300
    }

    /// Room for bytes of the request body.
    func giveBody(_ room: UnsafeMutableRawBufferPointer) -> Int {
        guard let task else { return Int(PINPROXY_UPLOAD_ABORT) }
        clock.active(at: pool.loop.now)
        let count = min(room.count, task.upload.count)
        if count > 0 {
            bodyTaken = true
            task.upload.withUnsafeBytes { room.baseAddress!.copyMemory(from: $0.baseAddress!, byteCount: count) }
            task.upload.consume(count)
            if task.upload.isEmpty {
                if task.uploadEnded { bodyIsSent(task) } else { task.delegate.taskNeedsBodyData(task) }
            }
            return self.task == nil ? Int(PINPROXY_UPLOAD_ABORT) : count
        }
        if task.uploadEnded {
            bodyIsSent(task)
            giveTrailers(of: task)
            return 0
        }
        if isRefusedEarly { return 0 }
        task.uploadPaused = true
        task.delegate.taskNeedsBodyData(task)
        return self.task == nil ? Int(PINPROXY_UPLOAD_ABORT) : Int(PINPROXY_UPLOAD_PAUSE)
    }

    /// What follows a body of unknown length (RFC 9112, section 7.1.2). libcurl 7.88 has no trailers for HTTP/2.
    private func giveTrailers(of task: LoopTask) {
        guard task.uploadTrailers.count > 0, task.request.bodyLength == .unknown, record?.isMultiplexed != true else {
            return
        }
        // libcurl does not forget that a handle has sent trailers, and writes amiss when it is used again.
        isWorn = true
        bodyTaken = true
        let trailers = task.uploadTrailers
        for index in 0..<trailers.count {
            var line = ByteBuffer()
            line.append(trailers.name(at: index))
            line.append(": ")
            line.append(trailers.value(at: index))
            line.append(0)
            line.withUnsafeBytes { pinproxy_easy_add_trailer(easy, $0.baseAddress) }
        }
    }

    private func bodyIsSent(_ task: LoopTask) {
        guard clock.phase == .sending else { return }
        times.requestEnd = task.elapsed
        enter(.waiting)
    }
}
