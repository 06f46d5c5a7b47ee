// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import HTTPSession

enum Router {
    case createUser(Parameters)
    case readUser(String)
    case updateUser(String, Parameters)
    case destroyUser(String)

    var parts: (method: HTTPMethod, path: String, parameters: Parameters?) {
        switch self {
        case .createUser(let parameters): (.post, "users", parameters)
        case .readUser(let name): (.get, "users/\(name)", nil)
        case .updateUser(let name, let parameters): (.put, "users/\(name)", parameters)
        case .destroyUser(let name): (.delete, "users/\(name)", nil)
        }
    }
}

extension HTTPSessionManager {
    func request(_ route: Router) throws -> DataRequest {
        let (method, path, parameters) = route.parts
        return try request(method, path, parameters: parameters)
    }
}

func routed(_ session: HTTPSessionManager) async throws {
    print(try await session.request(.readUser("mattt")).response(serializer: .json))
}
