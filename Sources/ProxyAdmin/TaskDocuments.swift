// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import IOCore
import ProxyCore
import StrictJSON

/// The documents of the admin listener that are made of the latest lines of the task log.
enum TaskDocuments {
    /// `/tasks`: the lines themselves, the latest first.
    static func tasks(_ recent: RecentTasks, limit: Int) -> ByteBuffer {
        let excerpt = latest(recent, limit)
        var text = ByteBuffer()
        text.append("{\"next\":")
        text.append(decimal: excerpt.next)
        text.append(",\"tasks\":[")
        for (index, line) in excerpt.lines.reversed().enumerated() {
            text.append(index == 0 ? "\n" : ",\n")
            text.append(line)
        }
        text.append("]}\n")
        return text
    }

    /// `/tasks.har`: an HTTP archive in version 1.2, which browsers' developer tools open, oldest first.
    static func archive(_ recent: RecentTasks, limit: Int, version: String) -> ByteBuffer {
        var text = ByteBuffer()
        text.append("{\"log\":{\"version\":\"1.2\",\"creator\":{\"name\":\"pinproxy\",\"version\":")
        text.append(jsonString: version)
        text.append("},\"pages\":[],\"entries\":[")
        var isFirst = true
        for line in latest(recent, limit).lines {
            guard case .object(let members)? = JSONDocument(bytes: line, file: "").root?.content else { continue }
            for entry in ArchiveEntry.entries(of: LineMembers(members)) {
                text.append(isFirst ? "\n" : ",\n")
                isFirst = false
                text.append(text: entry.object)
            }
        }
        text.append("]}}\n")
        return text
    }

    private static func latest(_ recent: RecentTasks, _ limit: Int) -> RecentTasks.Excerpt {
        recent.lines(from: max(0, recent.next - limit), upTo: .max)
    }
}
