import HTTPCaching
import IOCore

extension CacheStatus {
    /// Writes the whole field line, after those of caches nearer to the origin (RFC 9211, section 2).
    func writeField(to output: inout ByteBuffer) {
        output.append("Cache-Status: ")
        serialize(into: &output)
        output.append("\r\n")
    }
}
