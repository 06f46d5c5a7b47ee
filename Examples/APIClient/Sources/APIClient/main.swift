// SPDX-License-Identifier: Apache-2.0
// Uses the API of a pinned server, whose name, pins and CA are arguments:
//
//   APIClient https://localhost:8443/v1 PINS.json CA.pem FOLDER

import Glibc
import HTTPSession
import ServerTrust
import SessionCore

let words = CommandLine.arguments
guard words.count == 5 else {
    print("usage: APIClient URL PINS.json CA.pem FOLDER")
    exit(64)
}

do {
    let trust = SessionTrust(
        anchors: TrustAnchors(certificates: try Certificate.certificates(file: words[3])),
        pinnedDomains: try PinFile.load(path: words[2]).domains,
        allHostsMustBeEvaluated: true
    )
    let api = try NotesAPI(baseURL: words[1], trust: trust)
    do {
        try await api.logIn(name: "ada", password: "wrong")
    } catch let problem as Problem {
        print("refused: \(problem)")
    }
    try await api.logIn(name: "ada", password: "lovelace")

    var count = 0
    for try await note in api.notes() { count += note.isDone ? 1 : 0 }
    print("done: \(count)")

    let note = try await api.add(NewNote(title: "An engine"))
    print("added: \(note.title)")

    let paths = try await api.download((1...5).map { "file\($0)" }, to: words[4])
    print("files: \(paths.count)")

    let attachment = try await api.attach(paths[0], to: note.id)
    print("attached: \(attachment.fileName), \(attachment.byteCount) bytes")

    var kinds: [String] = []
    for try await change in api.changes() { kinds.append(change.kind) }
    print("changes: \(kinds.joined(separator: " "))")

    let conversation = try api.conversation(about: note.id)
    try await conversation.open()
    try await conversation.send(.string("hello"))
    if case .string(let text) = try await conversation.receive() { print("heard: \(text)") }
    conversation.cancel(with: .normalClosure)

    try await api.delete(note.id)
    await api.close()
    print("APIClient: all of it works")
} catch {
    print(error)
    exit(1)
}
