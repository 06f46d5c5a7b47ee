// SPDX-License-Identifier: Apache-2.0
import HTTPCore
import ServerTrust
import StrictJSON

extension ConfigurationReader {
    func readResponses(_ object: DocumentObject) -> ResponseRules {
        comment(object)
        var responses = ResponseRules()
        for element in object.elements("rules") ?? [] {
            if let object = element.object(), let rule = readResponseRule(object) { responses.rules.append(rule) }
        }
        responses.acceptableStatusCodes = object["acceptableStatusCodes"]?.statusCodes()
        responses.acceptableContentTypes = object["acceptableContentTypes"]?.mediaTypes()
        responses.maxBytes = object["maxBytes"]?.size()
        object.finish()
        return responses
    }

    /// The words of `then`.
    enum ResponseWord: String, CaseIterable {
        case allow, cancel, becomeDownload
    }

    private func readResponseRule(_ object: DocumentObject) -> ResponseRule? {
        comment(object)
        var rule = ResponseRule(.allow)
        rule.statuses = object["status"]?.statusCodes()
        rule.contentTypes = object["contentType"]?.mediaTypes()
        rule.minBytes = object["minBytes"]?.size()
        rule.maxBytes = object["maxBytes"]?.size()
        if let minimum = rule.minBytes, let maximum = rule.maxBytes, minimum > maximum {
            object["maxBytes"]?.report(
                "less than \"minBytes\": no length matches",
                remedy: "write the larger size here"
            )
        }
        let word = object.required("then")?.choice(ResponseWord.self)
        let directory = object["directory"]
        let quota = object["quota"]
        object.finish()
        if word != .becomeDownload, let word {
            for (name, element) in [("directory", directory), ("quota", quota)] {
                element?.report(
                    "\"\(name)\" belongs to \"then\": \"becomeDownload\", not to \"\(word.rawValue)\"",
                    remedy: "take it out"
                )
            }
        }
        switch word {
        case nil: return nil
        case .allow: rule.action = .allow
        case .cancel: rule.action = .cancel
        case .becomeDownload:
            guard let directory else {
                object.element.report("\"directory\" is missing", remedy: "name the folder that the files go to")
                return nil
            }
            var bytes = ResponseRule.defaultQuota
            if let quota {
                guard let size = quota.size() else { return nil }
                bytes = size
            }
            guard let path = directory.path() else { return nil }
            guard FileContents.isFolder(path) else {
                directory.report(
                    "\(path) is not a folder",
                    remedy: "make it, writable for the user of this process, or name another"
                )
                return nil
            }
            rule.action = .becomeDownload(directory: path, quota: bytes)
        }
        return rule
    }
}

extension DocumentElement {
    /// Reads `200`, `"200-299"`, `"2xx"`, or an array of these.
    func statusCodes() -> StatusCodes? {
        var codes = StatusCodes()
        for element in oneOrMore() {
            let text: String?
            if case .number(let digits) = element.value.content { text = digits } else { text = element.string() }
            guard let text else { continue }
            if !codes.insert(text) {
                element.report(
                    "not the status of a final response",
                    remedy: "write one as in 200, \"200-299\" or \"4xx\", from 200 to 599"
                )
            }
        }
        return codes.ranges.isEmpty ? nil : codes
    }

    /// Reads a media type, or an array of them.
    func mediaTypes() -> [MediaTypePattern]? {
        var types: [MediaTypePattern] = []
        for element in oneOrMore() {
            guard let text = element.string() else { continue }
            if let type = MediaTypePattern(text) {
                types.append(type)
            } else {
                element.report(
                    "not a media type",
                    remedy: "write one as in \"application/json\" or \"image/*\", without parameters"
                )
            }
        }
        return types.isEmpty ? nil : types
    }
}
