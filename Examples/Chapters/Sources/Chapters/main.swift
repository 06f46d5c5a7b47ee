// SPDX-License-Identifier: Apache-2.0
// Runs the chapters against an origin in memory, which stands for httpbin.org.

import ByDefault
import HTTPCore
import HTTPSession
import HTTPSessionStubs
import OnActor
import OnMainActor
import SessionCore

let origin = StubOrigin()
let seen = #"{"url":"https://httpbin.org/","name":"Mattt"}"#
try origin.route(.get, "/basic-auth/user/password", times: 1) { request in
    StubResponse(status: 401).adding("WWW-Authenticate", "Basic realm=\"chapters\"")
}
try origin.route(.get, "/redirect", response: .redirect(to: "/get"))
try origin.route(.get, "/stream", response: .text(seen + "\n" + seen + "\n"))
try origin.route(.get, "/table", response: .text("a,b\n1,2\n", contentType: "text/csv"))
try origin.route(.get, "/image/png", response: .bytes([1, 2, 3], contentType: "image/png"))
try origin.route(.get, "/slow") { request in .resumable([UInt8](repeating: 1, count: 2_000_000), to: request) }
try origin.route(.post, "https://some.domain-behind-oauth2.com/oauth2/token") { _ in
    try .json(["access_token": "new", "refresh_token": "next"])
}
try origin.route(.get, "https://some.domain-behind-oauth2.com/*") { request in
    request.value(for: "Authorization") == "Bearer new" ? try .json("ok") : .status(401)
}
for method in [HTTPMethod.get, .post, .put, .delete, HTTPMethod("CUSTOM")!] {
    try origin.route(method, "*", response: .text(seen, contentType: "application/json"))
}

var configuration = HTTPSessionManager.Configuration()
configuration.answerRequests(with: origin)
let folder = CommandLine.arguments.dropFirst().first ?? "."
let queue = CallbackQueue { work in work() }
let session = try HTTPSessionManager(baseURL: "https://httpbin.org", configuration: configuration)

try await makingRequests(session)
try await httpMethods(session)
try await ownMethod(session)
try await timeout(session)
try await encodableParameters(session)
try await parametersInTheURL(session)
try await parametersInTheBody(session)
try await choicesOfEncoding(session)
try await jsonBody(session)
_ = ownEncoder()
try await headers(session)
try await automaticValidation(session)
await manualValidation(session)
try decodableHandler(session)
try stringHandler(session)
try await awaited(session)
try chainedHandlers(session)
try handlerQueue(session, queue)
try await basicAuthentication(session)
try await manualAuthentication(session)
try await destination(session, folder)
try await suggestedDestination(session, folder)
try await downloadProgress(session, folder)
try await cancelAndResume(session, folder)
try await uploadBytes(session)
try await uploadFile(session, folder + "/image.png")
try await uploadForm(session)
try await uploadProgress(session, folder + "/image.png")
try await streamBytes(session)
try await streamText(session)
try await streamValues(session)
try await cancelAStream(session)
try await metrics(session)
try await curl(session)
whatIsCached(session)
try await redirects(session)
try await routed(session)
try await mapped(session)
try completionHandler(session) { print($0) }
try await ownSerializer(session)
try await progressOfBoth(session)
try await redirectsOfARequest(session)
try await cachingOfARequest(session)
try await credentialOfARequest(session)
try await valuesOfARequest(session)
try await validationOfARequest(session)
try cancelADownload(session)
_ = several(Adapter { request, _ in request }, Retrier { _, _ in .doNotRetry }, RetryPolicy())
try await withTokens(session)
try await compressed(session, ["name": "Mattt"])
try await awaitedValues(session)
try await oneOfThem(session)
try await twoSerializers(session)
try await inParallel(session)
try await awaitedFile(session)
try await notCancelled(session)
try await cancelledWithTheTask(session)
try await awaitedStream(session)
try await endedStream(session)
try await valueStreams(session)
try await urls(session)
try await requestsOfTheirOwn(session)
suspendAll(session)
cancelAll(session, queue)

let sessions = [
    try HTTPSessionManager(baseURL: "https://httpbin.org", configuration: try cache(configuration)),
    try sessionWithAConfiguration(configuration), try sessionWithRetries(configuration),
    try sessionWithAQueue(configuration, queue), try sessionWithAMonitor(configuration),
    try await adaptedSession(configuration), try await authenticatedSession(configuration),
    try compressingSession(configuration), try loggingSession(configuration),
]
for other in sessions { _ = try await other.data(for: "https://httpbin.org/get") }
try reachability().stopListening()
for other in sessions { await other.invalidateSession(cancelingTasks: false) }
await session.invalidateSession(cancelingTasks: false)

let surfaces = [
    try await OnActor.Surface().run(folder), try await OnMainActor.Surface().run(folder),
    try await ByDefault.Surface().run(folder),
]
precondition(surfaces.allSatisfy { $0 == surfaces[0] && $0.last == "1" }, "\(surfaces)")

precondition(origin.unmatchedRequests.isEmpty)
print("Chapters: all of them ran")
