// SPDX-License-Identifier: Apache-2.0
import HTTPCaching
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    /// `cache` at the top: the one cache of the process.
    mutating func readCache(_ object: DocumentObject) {
        comment(object)
        var cache = CacheConfiguration()
        if let isShared = object.bool("shared") { cache.isShared = isShared }
        if let bytes = object["memory"]?.size(in: (1 << 20)...(1 << 40)) { cache.memory = bytes }
        if let patience = object["patience"]?.duration() { cache.patience = patience }
        if let bytes = object["completeBelow"]?.size(in: (1 << 10)...(1 << 40)) { cache.completeBelow = bytes }
        if let object = object.object("disk") { cache.disk = readDisk(object) }
        if let object = object.object("redis") {
            cache.redis = readRedis(object)
            if !cache.isShared {
                object.element.report(
                    "a cache for one user does not belong where other machines read it",
                    remedy: "let \"shared\" be true, or take \"redis\" out"
                )
            }
        }
        object.finish()
        configuration.cache = cache
    }

    private func readDisk(_ object: DocumentObject) -> DiskCacheConfiguration? {
        comment(object)
        let element = object.required("path")
        let size = object["size"]?.size(in: (10 << 20)...(1 << 50))
        object.finish()
        guard let element, let path = element.path() else { return nil }
        guard FileContents.isMissing(path) || FileContents.isFolder(path) else {
            element.report(
                "\(path) is not a folder",
                remedy: "name a folder of the cache's own; it is made when it is not there"
            )
            return nil
        }
        var disk = DiskCacheConfiguration(path: path)
        if let size { disk.size = size }
        return disk
    }

    /// Reads `cache` of the defaults or of a host.
    func readCacheRules(_ object: DocumentObject) -> CacheRules {
        comment(object)
        if !namesCache {
            object.element.report(
                "without effect: there is no cache",
                remedy: "add \"cache\": {} at the top of the file, or take this out"
            )
        }
        var cache = CacheRules()
        if let policy = object["requestPolicy"]?.choice(RequestPolicy.self) { cache.requestPolicy = policy }
        for (place, element) in (object.elements("rules") ?? []).enumerated() {
            if let object = element.object() { readCacheRule(object, at: place, into: &cache) }
        }
        object.finish()
        return cache
    }

    /// The words of `then`.
    enum CacheWord: String, CaseIterable {
        case store, skip
    }

    /// The methods whose responses a cache may store.
    enum CacheMethod: String, CaseIterable {
        case get = "GET"
        case head = "HEAD"

        var method: HTTPMethod { self == .get ? .get : .head }
    }

    /// The keys of which each rule has one.
    private static let ruleKinds = ["then"] + requestRuleKinds

    private func readCacheRule(_ object: DocumentObject, at place: Int, into cache: inout CacheRules) {
        comment(object)
        let kinds = Self.ruleKinds.filter { object.has($0) }
        guard let kind = kinds.first, kinds.count == 1 else {
            skipRule(object)
            if let kind = kinds.first {
                object[kinds[1]]?.report(
                    "stands beside \"\(kind)\": a rule says one thing about requests, or one about responses",
                    remedy: "make two rules of it"
                )
            } else {
                object.element.report(
                    "\"then\" is missing",
                    remedy: "write \"then\": \"store\" or \"skip\", or in its place one of "
                        + Self.requestRuleKinds.map { "\"\($0)\"" }.joined(separator: ", ")
                )
            }
            return
        }
        guard kind == "then" else {
            refuse(Self.responseKeys, of: object, "is about responses, and this rule is about requests")
            readRequestRule(object, kind, at: place, into: &cache)
            object.finish()
            return
        }
        let path = object["path"]?.pathPattern()
        let method = object["method"]?.choice(CacheMethod.self)
        var rule = readResponseConditions(object, path, method)
        let word = object["then"]?.choice(CacheWord.self)
        if word == .skip { refuse(Self.storeKeys, of: object, "belongs to \"then\": \"store\"") }
        object.finish()
        if method == .head {
            object["method"]?.report("responses to HEAD are never stored", remedy: "write \"GET\", or take it out")
        }
        guard let word else { return }
        if word == .skip { rule.action = .skip }
        rule.place = place
        cache.rules.append(rule)
    }

    /// Reads a rule with an error for further errors.
    private func skipRule(_ object: DocumentObject) {
        _ = readResponseConditions(object, object["path"]?.pathPattern(), object["method"]?.choice(CacheMethod.self))
        object.finish()
    }

    /// The keys about storing a response.
    private static let storeKeys = ["ttl", "removeHeaders", "setHeaders", "maxBytes"]
    /// The keys that only apply to responses.
    private static let responseKeys = ["status", "contentType"] + storeKeys

    func refuse(_ keys: [String], of object: DocumentObject, _ why: String) {
        for key in keys { object[key]?.report("\"\(key)\" \(why)", remedy: "take it out") }
    }

    /// Reads a rule about storing, as far as it is one.
    private func readResponseConditions(
        _ object: DocumentObject,
        _ path: PathPattern?,
        _ method: CacheMethod?
    ) -> CacheRule {
        var removed: [String] = []
        for element in object.elements("removeHeaders") ?? [] {
            if let name = element.string(), fieldName(name, element) { removed.append(name) }
        }
        return CacheRule(
            path: path,
            statuses: object["status"]?.statusCodes(),
            contentTypes: object["contentType"]?.mediaTypes(),
            method: method?.method,
            action: .store(lifetime: object["ttl"].flatMap { readLifetime($0) }),
            removedFields: removed,
            setFields: object.object("setHeaders").map { readStoredFields($0) } ?? [],
            maximumBytes: object["maxBytes"]?.size()
        )
    }

    /// Reads a lifetime in seconds, the unit of caches.
    func readLifetime(_ element: DocumentElement) -> Int? {
        guard let lifetime = element.duration() else { return nil }
        guard lifetime.count % 1000 == 0 else {
            element.report("not whole seconds, in which caches count", remedy: "write 1s or more, without ms")
            return nil
        }
        return lifetime.count / 1000
    }

    private func readStoredFields(_ object: DocumentObject) -> [(name: String, value: String)] {
        var seen: Set<String> = []
        var fields: [(name: String, value: String)] = []
        for (name, element) in object.entries {
            _ = object[name]
            guard fieldName(name, element) else { continue }
            guard seen.insert(name.lowercased()).inserted else {
                element.report("the field stands here twice", remedy: "take one out; case makes no difference")
                continue
            }
            guard let value = element.string(), fieldValue(Array(value.utf8), element, "the value") != nil else {
                continue
            }
            fields.append((name, value))
        }
        return fields
    }
}
