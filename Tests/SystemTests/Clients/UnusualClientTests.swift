// SPDX-License-Identifier: Apache-2.0
import Foundation
import TestSupport
import Testing

/// What real programs write into request lines and Host that the matrix of clients does not ask of them.
@Suite("Programs with unusual request lines", .onOwnThreads)
struct UnusualClientTests {
    /// A program and its arguments; `PORT` is the proxy's, `HOST` the origin's name.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let program: String
        let arguments: [String]
        /// Target, Host, and Authorization as the origin gets them.
        let expected: String

        var testDescription: String { name }
        var isHere: Bool { (try? Programs.path(of: program)) != nil }
    }

    private static let proxy = "http://127.0.0.1:PORT"
    private static let credentials = "Basic dTpw"
    private static let quiet = "process.stdout.write"

    private static let cases = [
        Case(
            name: "curl with -H Host",
            program: "curl",
            arguments: ["-sS", "-x", proxy, "-H", "Host: other.example.com", "http://HOST/x"],
            expected: "/x HOST -"
        ),
        Case(
            name: "curl with raw UTF-8 in the path",
            program: "curl",
            arguments: ["-sS", "-x", proxy, "http://HOST/caf\u{E9}?q=\u{1F600}"],
            expected: "/caf%C3%A9?q=%F0%9F%98%80 HOST -"
        ),
        Case(
            name: "curl with user information and a fragment, which it removes itself",
            program: "curl",
            arguments: ["-sS", "-x", proxy, "http://u:p@HOST/x#part"],
            expected: "/x HOST \(credentials)"
        ),
        Case(
            name: "wget with user information",
            program: "wget",
            arguments: ["-q", "-O", "-", "-e", "http_proxy=\(proxy)", "--auth-no-challenge", "http://u:p@HOST/x"],
            expected: "/x HOST \(credentials)"
        ),
        Case(
            name: "Python's urllib with a fragment and another Host",
            program: "python3",
            arguments: [
                "-c",
                """
                import urllib.request
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "\(proxy)"}))
                request = urllib.request.Request("http://HOST/x#part", headers={"Host": "other.example.com"})
                print(opener.open(request, timeout=30).read().decode(), end="")
                """,
            ],
            expected: "/x HOST -"
        ),
        Case(
            name: "Python's http.client with the URL in the request line",
            program: "python3",
            arguments: [
                "-c",
                """
                import http.client
                connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
                connection.request("GET", "http://u:p@HOST/x#part", headers={"Host": "127.0.0.1:PORT"})
                print(connection.getresponse().read().decode(), end="")
                """,
            ],
            expected: "/x HOST \(credentials)"
        ),
        Case(
            name: "Node's http.get with host, port and a URL as path",
            program: "node",
            arguments: [
                "-e",
                """
                require("http").get({ host: "127.0.0.1", port: PORT, path: "http://HOST/x" },
                    (answer) => answer.on("data", (piece) => \(quiet)(piece)))
                """,
            ],
            expected: "/x HOST -"
        ),
        Case(
            name: "Java's HttpURLConnection with a fragment and UTF-8",
            program: "java",
            arguments: [
                "-Dhttp.proxyHost=127.0.0.1", "-Dhttp.proxyPort=PORT", "-Dsun.net.http.allowRestrictedHeaders=true",
                "-Dfile.encoding=UTF-8", "JAVA",
            ],
            expected: "/caf%C3%A9 HOST -"
        ),
    ]

    private static let present = cases.filter { RealPeers.areRequired || $0.isHere }

    private static let java = """
        import java.net.URL;
        public class Unusual {
            public static void main(String[] arguments) throws Exception {
                var connection = new URL("http://HOST/caf\\u00e9#part").openConnection();
                connection.setRequestProperty("Host", "other.example.com");
                System.out.print(new String(connection.getInputStream().readAllBytes(), "UTF-8"));
            }
        }
        """

    @Test("the request arrives regular, with the target's Host", arguments: present)
    func program(one: Case) throws {
        let stage = try Stage {
            OriginResponse.text("\($0.target) \($0["Host"] ?? "-") \($0["Authorization"] ?? "-")")
        }
        func filled(_ text: String) -> String {
            text.replacing("PORT", with: "\(stage.proxy.port)").replacing("HOST", with: Stage.host)
        }
        let folder = try TemporaryFolder()
        let source = try folder.write(filled(Self.java), as: "Unusual.java")
        let arguments = one.arguments.map { $0 == "JAVA" ? source : filled($0) }
        let finished = try Programs.run(one.program, arguments)
        #expect(finished.output == filled(one.expected), "\(finished.errors)")
    }
}
