import HTTPCore
import ServerTrust
import StrictJSON
import Testing

@testable import ProxyCore

@Suite("the admin listener as configured")
struct ConfigurationAdminTests {
    private func admin(_ members: String) -> (AdminConfiguration?, issues: [DocumentIssue]) {
        let (configuration, issues, _) = readConfiguration("{ \"version\": 1, \"admin\": { \(members) } }")
        return (configuration.admin, issues)
    }

    @Test("there is none unless it is asked for")
    func none() {
        #expect(readConfiguration(#"{ "version": 1 }"#).configuration.admin == nil)
    }

    @Test("an address or a Unix socket, and names of its own")
    func values() throws {
        let (address, issues) = admin(#""address": "127.0.0.1:8081", "allowedHosts": ["Ops.Example.com."]"#)
        #expect(issues.isEmpty)
        #expect(address?.endpoint.description == "127.0.0.1:8081")
        #expect(address?.allowedHosts == [try Host("ops.example.com")])
        let (socket, none) = admin(#""comment": "for the kubelet", "unixSocket": "admin.sock""#)
        #expect(none.isEmpty)
        #expect(socket?.endpoint == .unixSocket(path: "/etc/pinproxy/admin.sock"))
    }

    @Test(
        "what is wrong with it is a load error",
        arguments: [
            (#""comment": "nothing""#, "/admin", "says not where"),
            (#""address": "127.0.0.1:1", "unixSocket": "s""#, "/admin/unixSocket", "beside"),
            (#""address": "0.0.0.0:8081""#, "/admin/address", "could see what the proxy does"),
            (#""address": "192.0.2.1:8081", "allowRemoteClients": false"#, "/admin/address", "not a loopback"),
            (#""unixSocket": "s", "allowRemoteClients": true"#, "/admin/allowRemoteClients", "no remote client"),
            (#""address": "127.0.0.1:8081", "allowedHosts": ["a b"]"#, "/admin/allowedHosts/0", "not a host"),
            (#""address": "127.0.0.1:8081", "mode": "forward""#, "/admin/mode", "unknown"),
            (#""address": "127.0.0.1:8080""#, "/admin", "listens where a listener does"),
        ]
    )
    func errors(members: String, pointer: String, says: String) {
        let (_, issues) = admin(members)
        #expect(issues.map(\.pointer) == [pointer], "\(issues)")
        #expect(issues.first?.message.contains(says) == true, "\(issues)")
    }

    @Test("others than this machine may ask only if that is said")
    func remote() {
        let (admin, issues) = admin(#""address": "0.0.0.0:8081", "allowRemoteClients": true"#)
        #expect(issues.isEmpty && admin?.allowRemoteClients == true)
    }

    @Test("no resolve and no upstream leads there: its address is one of the proxy's own")
    func unreachable() {
        let (_, issues, _) = readConfiguration(
            #"""
            { "version": 1, "admin": { "address": "127.0.0.1:8081" },
              "listeners": [{ "address": "127.0.0.1:1", "mode": "gateway", "upstream": "https://127.0.0.1:8081" }],
              "hosts": { "a.example": { "resolve": "127.0.0.1:8081" } } }
            """#
        )
        #expect(Set(issues.map(\.pointer)) == ["/listeners/0/upstream", "/hosts/a.example/resolve"])
        for issue in issues { #expect(issue.message.contains("own listeners"), "\(issue)") }
    }

    @Test("it is found in a configuration that has errors elsewhere")
    func lookUp() throws {
        let folder = try ConfigurationFolder([
            "config.json": #"""
            { "version": 1, "pins": "nowhere", "xyzzy": 1, "admin": { "unixSocket": "admin.sock" } }
            """#,
            "none.json": #"{ "version": 1 }"#,
            "wrong.json": #"{ "version": 1, "admin": { "address": "127.0.0.1" } }"#,
            "broken.json": #"{ "admin": "#,
        ])
        let found = try AdminConfiguration.lookUp(path: folder.path("config.json"))
        #expect(found.endpoint == .unixSocket(path: folder.path("admin.sock")))
        func failure(_ name: String) -> AdminConfiguration.LookupFailure? {
            do throws(AdminConfiguration.LookupFailure) {
                _ = try AdminConfiguration.lookUp(path: folder.path(name))
                return nil
            } catch {
                return error
            }
        }
        guard case .missingFile? = failure("missing.json") else {
            Issue.record("a file that is not there")
            return
        }
        guard case .absent? = failure("none.json") else {
            Issue.record("a file without admin")
            return
        }
        guard case .issues(let wrong)? = failure("wrong.json"), case .issues(let broken)? = failure("broken.json")
        else {
            Issue.record("files with errors")
            return
        }
        #expect(wrong.map(\.pointer) == ["/admin/address"])
        #expect(broken.count == 1)
    }
}
