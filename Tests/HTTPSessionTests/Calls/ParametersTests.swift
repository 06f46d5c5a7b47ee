// SPDX-License-Identifier: Apache-2.0
import FoundationEssentials
import HTTPCore
import HTTPSessionCodable
import ServerTrust
import TestSupport
import Testing

@testable import HTTPSessionCore
@testable import SessionCore

/// As programs write them.
@Suite("Parameters of any type", .onOwnThreads)
struct ParametersTests {
    private struct Query: Encodable, Sendable {
        var text = "a b"
        var page = 2
        var url = URL(string: "https://a.example/")!
    }

    @Test("literals, literals with variables, dictionaries and types go where parameters go")
    func kinds() async throws {
        let stage = try HTTPStage(responding: { HTTPStage.echo($0) })
        let manager = stage.manager
        func target(_ response: sending SerializedResponse<JSONValue>) -> String {
            response.value["target"]?.string ?? ""
        }
        let (q, page, missing) = ("x y", 3, Int?.none)
        let named: [String: String] = ["b": "2", "a": "1"]
        #expect(try await target(manager.get("i", parameters: ["q": q], serializer: .json)) == "/v1/i?q=x%20y")
        #expect(
            try await target(manager.get("i", parameters: ["q": q, "page": page], serializer: .json))
                == "/v1/i?page=3&q=x%20y"
        )
        #expect(
            try await target(
                manager.get(
                    "i",
                    parameters: ["q": q, "tags": ["a", "b"], "none": missing, "on": true],
                    serializer: .json
                )
            )
                == "/v1/i?none&on=1&q=x%20y&tags%5B%5D=a&tags%5B%5D=b"
        )
        #expect(try await target(manager.get("i", parameters: named, serializer: .json)) == "/v1/i?a=1&b=2")
        #expect(
            try await target(manager.get("i", parameters: Query(), serializer: .json))
                == "/v1/i?page=2&text=a%20b&url=https%3A//a.example/"
        )
        #expect(
            try await target(
                manager.get("i", parameters: ["a": ["b": ["c": 1, "d": "x"]]], serializer: .json)
            )
                == "/v1/i?a%5Bb%5D%5Bc%5D=1&a%5Bb%5D%5Bd%5D=x"
        )
        #expect(try await target(manager.get("i", serializer: .json)) == "/v1/i")
        #expect(try await target(manager.get("i", parameters: nil, serializer: .json)) == "/v1/i")
        await stage.end()
    }

    @Test("names keep their order in JSON, and the serializer's encoder makes their form")
    func order() async throws {
        let stage = try HTTPStage(responding: { HTTPStage.echo($0) })
        stage.manager.requestSerializer = JSONRequestSerializer()
        stage.manager.requestSerializer.settings.parameterEncoder.keyEncodingStrategy = .convertToSnakeCase
        stage.manager.requestSerializer.settings.parameterEncoder.dateEncodingStrategy = .secondsSince1970
        let date = Date(timeIntervalSince1970: 7)
        let response = try await stage.manager.post(
            "i",
            parameters: ["zFirst": date, "aSecond": Query()],
            serializer: .json
        )
        #expect(
            response.value["body"]?.string
                == #"{"z_first":7,"a_second":{"text":"a b","page":2,"url":"https:\/\/a.example\/"}}"#
        )
        let bad = await #expect(throws: RequestFailure.self) {
            try await stage.manager.post("i", parameters: ["n": Double.nan], serializer: .json)
        }
        #expect(bad?.sessionError?.code == .requestInvalid)
        await stage.end()
    }

    private struct Seen: Decodable, Sendable { var method: String }

    @Test("serializers have short names where one is expected; their values are sendable")
    func serializers() async throws {
        let stage = try HTTPStage(responding: { HTTPStage.echo($0) })
        let manager = stage.manager
        let task = Task { try await manager.get("i", serializer: .decodable(Seen.self)) }
        #expect(try await task.value.value.method == "GET")
        #expect(
            try await manager.put("i", parameters: ["a": 1], serializer: .decodable(Seen.self)).value.method == "PUT"
        )
        #expect(try await manager.delete("i", serializer: .string).value.contains("DELETE"))
        #expect(try await manager.patch("i", serializer: .data).value.isEmpty == false)
        await stage.end()
    }

    @Test("a manager without rules checks servers against the system's anchors")
    func systemTrust() async throws {
        let stage = try HTTPStage(responding: { HTTPStage.echo($0) })
        let manager = try HTTPSessionManager(baseURL: "https://127.0.0.1:\(stage.origin.port)")
        await #expect { try await manager.get("i") } throws: {
            ($0 as? RequestFailure)?.sessionError?.code == .certificateUntrusted
        }
        #expect(try SessionTrust.system.anchors.count == manager.serverTrust.anchors.count)
        await manager.invalidateSession(cancelingTasks: true)
        await stage.end()
    }
}
