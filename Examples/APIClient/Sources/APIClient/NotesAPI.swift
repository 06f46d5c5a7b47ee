// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSession
import ServerTrust
import SessionCore

/// The API of a service for notes: a method for each thing that it can do, with values of this program.
struct NotesAPI: Sendable {
    private let manager: HTTPSessionManager
    private let accounts: HTTPSessionManager
    private let authentication: AuthenticationInterceptor<TokenAuthenticator>

    /// - Parameters:
    ///   - baseURL: where the API begins.
    ///   - trust: the pins of its host.
    init(baseURL: String, trust: SessionTrust) throws {
        var configuration = HTTPSessionManager.Configuration()
        configuration.timeouts.firstByte = .seconds(10)
        // Both managers share one thread.
        let loop = try SessionLoop()
        accounts = try HTTPSessionManager(
            baseURL: baseURL,
            configuration: configuration,
            serverTrust: trust,
            loop: loop
        )
        authentication = AuthenticationInterceptor(authenticator: TokenAuthenticator(accounts: accounts))
        manager = try HTTPSessionManager(
            baseURL: baseURL,
            configuration: configuration,
            serverTrust: trust,
            interceptor: Interceptor(interceptors: [authentication, RetryPolicy(retryLimit: 5)]),
            loop: loop
        )
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        for made in [accounts, manager] {
            made.requestSerializer = JSONRequestSerializer()
            made.decoder = decoder
            made.encoder.keyEncodingStrategy = .convertToSnakeCase
        }
    }

    /// Ends all requests and connections.
    func close() async {
        await manager.invalidateSession(cancelingTasks: true)
        await accounts.invalidateSession(cancelingTasks: true)
    }

    // MARK: Account

    /// Gets a token, which all further requests have.
    func logIn(name: String, password: String) async throws {
        authentication.credential = try await explained {
            try await accounts.post(
                "login",
                parameters: ["name": name, "password": password],
                serializer: .decodable(Token.self)
            ).value
        }
    }

    // MARK: Notes

    /// All notes, page by page: the next page is asked for when the loop has come to the end of the one before.
    func notes() -> AsyncThrowingStream<Note, any Error> {
        let pages = Pages(manager: manager)
        return AsyncThrowingStream { try await pages.next() }
    }

    func add(_ note: NewNote) async throws -> Note {
        try await explained {
            try await manager.post("notes", parameters: note, serializer: .decodable(Note.self)).value
        }
    }

    func delete(_ id: Note.ID) async throws {
        try await explained { _ = try await manager.delete("notes/\(id)", serializer: .data) }
    }

    // MARK: Files

    /// Downloads files side by side, at most three at a time. A download that breaks off goes on where it was.
    ///
    /// - Returns: the paths, in the order of the names.
    func download(_ names: [String], to folder: String) async throws -> [String] {
        try await withThrowingTaskGroup(of: (Int, String).self) { group in
            var paths = [String](repeating: "", count: names.count)
            for (index, name) in names.enumerated() {
                if index >= 3, let (done, path) = try await group.next() { paths[done] = path }
                group.addTask {
                    let destination = "\(folder)/\(name)"
                    let request = try manager.download(.get, "files/\(name)") { _, _ in
                        (destination, [.removePreviousFile, .createIntermediateDirectories])
                    }
                    return (index, try await request.response().path)
                }
            }
            for try await (done, path) in group { paths[done] = path }
            return paths
        }
    }

    /// Attaches a file to a note.
    func attach(_ path: String, to id: Note.ID, progress: ProgressHandler? = nil) async throws -> Attachment {
        try await explained {
            try await manager.post(
                "notes/\(id)/attachments",
                parameters: ["comment": "from a program"],
                progress: progress,
                serializer: .decodable(Attachment.self)
            ) { form in
                try form.appendFile(path, name: "file")
            }.value
        }
    }

    // MARK: Changes

    /// The changes of all notes, from now on. Connections that end are made again, and no change is lost between them.
    func changes() -> some AsyncSequence<Change, any Error> {
        let decoder = manager.decoder
        return manager.events("changes").map { event in try decoder.decode(Change.self, from: Array(event.data.utf8)) }
    }

    /// A conversation with the others who read a note.
    func conversation(about id: Note.ID) throws -> WebSocketTask {
        // Interceptors are not asked for WebSockets.
        var headers: HTTPHeaders = [:]
        headers["Authorization"] = authentication.credential.map { "Bearer \($0.accessToken)" }
        return try manager.webSocketTask("notes/\(id)/conversation", headers: headers, protocols: ["text"])
    }

    // MARK: Inside

    /// The server's own words for an error, where it has some.
    private func explained<Value: Sendable>(_ work: () async throws -> Value) async throws -> Value {
        do {
            return try await work()
        } catch let failure as RequestFailure {
            guard let response = failure.response,
                let problem = try? DecodableResponseSerializer(
                    Problem.self,
                    validation: ResponseValidation(acceptableStatusCodes: nil)
                ).serialize(response)
            else { throw failure }
            throw problem
        }
    }
}

/// The place in a list of pages. One loop uses it.
private actor Pages {
    private let manager: HTTPSessionManager
    private var items: [Note] = []
    private var next: Int? = 1

    init(manager: HTTPSessionManager) { self.manager = manager }

    func next() async throws -> Note? {
        while items.isEmpty, let number = next {
            let page = try await manager.get(
                "notes",
                parameters: ["page": number],
                serializer: .decodable(Page<Note>.self)
            ).value
            items = page.items.reversed()
            next = page.nextPage
        }
        return items.popLast()
    }
}
