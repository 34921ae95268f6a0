import Foundation
import ImageIO
import OnnxRuntimeBindings

let size = 224

/// Upright RGB as numbers, reduced while it is decoded: the longer side has 2,048 pixels at most.
func decoded(_ photo: URL) -> (image: [Float], wide: Int, high: Int)? {
    let options = [kCGImageSourceCreateThumbnailFromImageAlways: true, kCGImageSourceCreateThumbnailWithTransform: true,
                   kCGImageSourceThumbnailMaxPixelSize: 2048] as CFDictionary
    guard let source = CGImageSourceCreateWithURL(photo as CFURL, nil),
          let small = CGImageSourceCreateThumbnailAtIndex(source, 0, options) else { return nil }
    var bytes = [UInt8](repeating: 255, count: 4 * small.width * small.height)
    let context = CGContext(data: &bytes, width: small.width, height: small.height, bitsPerComponent: 8,
                            bytesPerRow: 4 * small.width, space: CGColorSpace(name: CGColorSpace.sRGB)!,
                            bitmapInfo: CGImageAlphaInfo.noneSkipLast.rawValue)
    context?.draw(small, in: CGRect(x: 0, y: 0, width: small.width, height: small.height))
    let image = (0..<3 * small.width * small.height).map { Float(bytes[$0 / 3 * 4 + $0 % 3]) }
    return (image, small.width, small.height)
}

/// The width resized to `size` (bilinear, antialiased), and the two axes swapped.
func resizedAndTurned(_ image: [Float], wide: Int, high: Int) -> [Float] {
    var result = [Float](repeating: 0, count: 3 * size * high)
    let step = Float(wide) / Float(size)
    let reach = max(step, 1)
    for x in 0..<size {
        let centre = (Float(x) + 0.5) * step
        let first = max(0, Int(centre - reach + 0.5)), last = min(wide, Int(centre + reach + 0.5))
        let shares = (first..<last).map { max(0, 1 - abs(Float($0) + 0.5 - centre) / reach) }
        let sum = shares.reduce(0, +)
        for y in 0..<high {
            for c in 0..<3 {
                var value: Float = 0
                for k in 0..<shares.count { value += shares[k] * image[3 * (y * wide + first + k) + c] }
                result[3 * (x * high + y) + c] = (value / sum + 0.5).rounded(.down)
            }
        }
    }
    return result
}

/// The likeliest class of a photo, and its probability. Keep the session for the next photo.
func classify(_ photo: URL, model: String, classes: [String]) throws -> (String, Float)? {
    guard let (image, wide, high) = decoded(photo) else { return nil }
    let turned = resizedAndTurned(image, wide: wide, high: high)
    let pixels = resizedAndTurned(turned, wide: high, high: size).map { UInt8($0) }
    let environment = try ORTEnv(loggingLevel: .warning)
    let session = try ORTSession(env: environment, modelPath: model, sessionOptions: nil)
    let input = try ORTValue(tensorData: NSMutableData(data: Data(pixels)), elementType: .uInt8,
                             shape: [1, size as NSNumber, size as NSNumber, 3])
    let outputs = try session.run(withInputs: ["pixels": input], outputNames: ["probabilities"], runOptions: nil)
    let data = try outputs["probabilities"]!.tensorData() as Data
    let probabilities = data.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
    let best = probabilities.indices.max { probabilities[$0] < probabilities[$1] }!
    return (classes[best], probabilities[best])
}
