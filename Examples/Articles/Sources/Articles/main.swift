// SPDX-License-Identifier: Apache-2.0
// Runs the code of the articles against an origin in memory. The articles of the reference show this code: `.ci/articles`
// compares them.

import Glibc
import HTTPCore
import HTTPSession
import HTTPSessionStubs

let whole = [UInt8](repeating: 7, count: 300_000)
let origin = StubOrigin()
try origin.route(.get, "/v1/files/large.iso", times: 1) { request in
    .resumable(whole, to: request).cut(afterBytes: 100_000)
}
try origin.route(.get, "/v1/files/large.iso") { request in .resumable(whole, to: request) }
try origin.route(.get, "/v1/files/report.pdf", response: .text("report"))
try origin.route(.put, "/v1/files/report.pdf", response: .status(201))
for path in ["/v1/reports", "/v1/rows"] {
    try origin.route(.post, path, response: .text("{}", contentType: "application/json"))
}
try origin.route(.get, "/v1/updates", times: 1, response: .text("data: one\n\n", contentType: "text/event-stream"))
try origin.route(.get, "/v1/updates", response: .status(204))
try origin.route(
    .get,
    "/v1/prices",
    response: .text("{\"item\":\"tea\",\"cents\":250}\n", contentType: "application/jsonl")
)
try origin.route(.post, "/v1/token") { request in
    try .json(["access": "new", "refresh": String(decoding: request.body, as: UTF8.self)])
}
try origin.route(.get, "/v1/mine") { request in
    request.value(for: "Authorization") == "Bearer new" ? try .json("mine") : .status(401)
}
try origin.route(.get, "/v1/items") { _ in try .json([Item(name: "tea")]) }
try origin.route(.post, "/v1/items") { _ in try .json(Item(name: "new")) }

var configuration = HTTPSessionManager.Configuration()
configuration.answerRequests(with: origin)
let manager = try HTTPSessionManager(baseURL: "https://api.example.com/v1", configuration: configuration)
let folder = CommandLine.arguments.dropFirst().first ?? "."

// Pins are compared with keys of real servers; here the policies are only made.
let keys = [
    "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "sha256/AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
]
for made in [try pinWithoutAFile(keys[0], keys[1]), try makePinnedManager(keys[0], keys[1])] {
    await made.invalidateSession(cancelingTasks: false)
}

guard let resumeData = try await download(with: manager, to: folder + "/first") else { fatalError("nothing was cut") }
try await resume(resumeData, with: manager, to: folder + "/first")
try await downloadWithRetries(with: manager, to: folder + "/second")
try await uploadFile(folder + "/first", with: manager)
try await uploadForm(folder + "/first", with: manager)
try await uploadSequence(with: manager)

let signedIn = try makeManager(Token(access: "old", refresh: "again"), configuration)
let mine = try await signedIn.get("mine", serializer: .decodable(String.self)).value
precondition(mine == "mine")
await signedIn.invalidateSession(cancelingTasks: false)

try await readEvents(with: manager)
try await readLines(with: manager)
try await testItems()
try await testRefusedServer()

try getItems(with: manager)
try await getItemsAwaited(with: manager)
try await downloadToFolder(with: manager, folder)

try addFeed(to: origin)
try await followPrices(with: manager.session)
_ = try await ask(with: manager.session)

let session = try makeSession(configuration)
try await request(with: session)
try await validate(with: session)
await session.invalidateSession(cancelingTasks: false)

precondition(origin.unmatchedRequests.isEmpty)
let uploaded = origin.requests.filter { $0.method == .put }.map(\.body)
precondition(uploaded == [whole])
await manager.invalidateSession(cancelingTasks: false)
print("Articles: all of them ran")
