// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import IOCore
import SessionCore

extension TaskLogLine {
    /// Appends the line of a background refresh, which has no client.
    mutating func write(_ refresh: CacheRefresh, _ task: LoopTask, _ outcome: CacheOutcome, to line: inout ByteBuffer) {
        let client: StaticString = "cache"
        writeBeginning(refresh.startTime, task, client: client.bytes, to: &line)
        refresh.identity?.writeMembers(to: &line)
        refresh.ruling.write(to: &line)
        if let credentials = refresh.credentials { line.append(credentials.logText) }
        line.append(",\"method\":\"GET\",\"url\":\"")
        let start = line.count
        line.append(refresh.logPrefix)
        let target = refresh.target
        writeTarget(target.span, to: &line)
        let url = start..<line.count
        line.append("\"")
        if task.metrics.transaction.status > 0 {
            line.append(",\"status\":")
            line.append(decimal: task.metrics.transaction.status)
        }
        line.append(",\"bytesSent\":0,\"bytesReceived\":")
        line.append(decimal: Int(task.metrics.transaction.responseBodyBytesReceived))
        line.append(",\"duration\":")
        line.append(milliseconds: task.metrics.duration)
        if let error = refresh.error {
            line.append(",\"error\":\"")
            line.append(text: error.code.rawValue)
            line.append("\",\"errorDetails\":")
            line.append(jsonString: error.details)
        }
        write(outcome, to: &line)
        line.append(",\"redirectCount\":0")
        PinningText.write(task, at: refresh.startTime / 1_000_000, to: &line)
        line.append(",\"transactions\":[")
        let evaluation = task.evaluation
        task.lendTransaction { write(&$0, evaluation, url: url, to: &line) }
        line.append("]}\n")
    }
}
