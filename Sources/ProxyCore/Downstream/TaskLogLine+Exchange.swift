// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import ProxyConfiguration
import SessionCore

extension TaskLogLine {
    /// Appends the line of one request.
    ///
    /// - Parameters:
    ///   - task: nil when the request was refused before there was one.
    ///   - now: the loop's time in nanoseconds.
    mutating func write(
        _ exchange: Exchange,
        _ task: LoopTask?,
        client: [UInt8],
        now: UInt64,
        to line: inout ByteBuffer
    ) {
        writeBeginning(exchange.life.startedWall, task, client: client.span, to: &line)
        if let redirection = exchange.stream?.transport.redirection {
            line.append(",\"originalDestination\":\"")
            redirection.original.socketAddress.append(to: &line)
            line.append("\"")
        }
        if let identity = exchange.requestIdentity { identity.writeMembers(to: &line) }
        if let user = exchange.user {
            line.append(",\"user\":\"")
            line.append(jsonEscaping: user.span)
            line.append("\"")
        }
        if exchange.route?.rules != nil {
            exchange.admission.ruling.write(to: &line)
            if let credentials = exchange.credentials { line.append(credentials.logText) }
        }
        if exchange.route != nil, exchange.head.wantsUpgrade, UpgradeOffer(exchange.head) != nil {
            line.append(",\"upgrade\":true")
        }
        let url = writeRequest(exchange.head, exchange.route, to: &line)
        if exchange.writer.hasBegun {
            line.append(",\"status\":")
            line.append(decimal: exchange.writer.status)
        }
        line.append(",\"bytesSent\":")
        line.append(decimal: exchange.bytesToOrigin)
        line.append(",\"bytesReceived\":")
        line.append(decimal: exchange.bytesToClient)
        line.append(",\"duration\":")
        let record = exchange.hooks?.record
        let isOneTask = record?.hasFollowed != true
        let duration = isOneTask ? task?.metrics.duration : nil
        line.append(milliseconds: duration ?? Int64((now - exchange.life.startedAt) / 1000))
        if let problem = exchange.life.problem {
            line.append(",\"error\":\"")
            line.append(text: problem.code.rawValue)
            line.append("\",\"errorDetails\":")
            line.append(jsonString: problem.details)
        }
        if let outcome = exchange.cacheOutcome { write(outcome, to: &line) }
        if let path = record?.download {
            line.append(",\"download\":")
            line.append(jsonString: path)
        }
        if task != nil || !isOneTask {
            line.append(",\"redirectCount\":")
            line.append(decimal: record?.earlier.count ?? 0)
            if let task { PinningText.write(task, at: exchange.life.startedWall / 1_000_000, to: &line) }
            line.append(",\"transactions\":[")
            if let record, record.hasFollowed {
                write(record, task, to: &line)
            } else if let task {
                // A refused connection does not belong to the transaction; its keys are in the task's own members. Of a reused
                // connection they are in the line of its first request.
                let evaluation = task.metrics.transaction.isReusedConnection ? nil : task.evaluation
                task.lendTransaction { write(&$0, evaluation, url: url, to: &line) }
            }
            line.append("]")
        }
        line.append("}\n")
    }

    /// Writes the transactions of a request that followed redirects: each with its own URL, and with times from the
    /// start of the first one that was sent to an origin. A transaction of the cache has only its URL.
    private func write(_ record: HookStage.Record, _ task: LoopTask?, to line: inout ByteBuffer) {
        let started = record.earlier.first { $0.metrics != nil }?.fetchStart ?? task?.metrics.fetchStart ?? 0
        for one in record.earlier {
            writePlace(one.prefix, one.target, to: &line)
            if let metrics = one.metrics {
                var later = metrics.later(by: one.fetchStart - started)
                write(&later, one.evaluation, to: &line)
            } else {
                line.append(",\"cache\":\"hit\"}")
            }
            line.append(",")
        }
        writePlace(record.prefix, record.url?.target ?? [], to: &line)
        guard let last = task?.metrics else {
            line.append(",\"cache\":\"hit\"}")
            return
        }
        var later = last.transaction.later(by: last.fetchStart - started)
        write(&later, task?.evaluation, to: &line)
    }

    /// Writes method and URL.
    ///
    /// - Returns: the range of the URL in `line`, for repeating it.
    private func writeRequest(
        _ head: borrowing RequestHead,
        _ route: Route?,
        to line: inout ByteBuffer
    ) -> Range<Int> {
        guard head.byteCount > 0 else { return 0..<0 }
        line.append(",\"method\":\"")
        switch head.method {
        case .other(let bytes): line.append(jsonEscaping: bytes.span)
        default: line.append(head.method.knownText)
        }
        line.append("\",\"url\":\"")
        let start = line.count
        writeURL(head, route, to: &line)
        let url = start..<line.count
        line.append("\"")
        return url
    }

    private func writeURL(_ head: borrowing RequestHead, _ route: Route?, to line: inout ByteBuffer) {
        if let route {
            line.append(route.logPrefix)
            // The authority is the whole target of CONNECT, and of OPTIONS for a server (RFC 9110, section 7.1).
            let isOfServer = head.method == .connect || head.target.count == 1 && head.target[0] == UInt8(ascii: "*")
            if !isOfServer { writeTarget(head.target, to: &line) }
        } else {
            writeTarget(head.rawTarget, to: &line)
        }
    }
}
