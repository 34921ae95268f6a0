import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import android.content.Context
import android.graphics.Bitmap
import android.graphics.ImageDecoder
import android.net.Uri
import java.nio.ByteBuffer
import kotlin.math.abs
import kotlin.math.max
import kotlin.math.min
import org.json.JSONObject

const val SIZE = 224

/** Upright RGB; ImageDecoder looks at EXIF itself. A large JPEG is decoded at 1/2, 1/4 or 1/8 of its size. */
fun decoded(context: Context, photo: Uri): Bitmap =
    ImageDecoder.decodeBitmap(ImageDecoder.createSource(context.contentResolver, photo)) { decoder, info, _ ->
        val shorter = min(info.size.width, info.size.height)
        decoder.setTargetSampleSize(listOf(8, 4, 2).firstOrNull { shorter >= 2 * SIZE * it } ?: 1)
        decoder.allocator = ImageDecoder.ALLOCATOR_SOFTWARE
    }

/** The width resized to `size` (bilinear, antialiased), and the two axes swapped. */
fun resizedAndTurned(image: FloatArray, wide: Int, high: Int, size: Int): FloatArray {
    val result = FloatArray(3 * size * high)
    val step = wide.toFloat() / size
    val reach = max(step, 1f)
    for (x in 0 until size) {
        val centre = (x + 0.5f) * step
        val first = max(0, (centre - reach + 0.5f).toInt())
        val last = min(wide, (centre + reach + 0.5f).toInt())
        val shares = FloatArray(last - first) { max(0f, 1 - abs(first + it + 0.5f - centre) / reach) }
        val sum = shares.sum()
        for (y in 0 until high) for (c in 0..2) {
            var value = 0f
            for (k in shares.indices) value += shares[k] * image[3 * (y * wide + first + k) + c]
            result[3 * (x * high + y) + c] = (value / sum + 0.5f).toInt().toFloat()
        }
    }
    return result
}

fun pixels(photo: Bitmap): ByteBuffer {
    val colours = IntArray(photo.width * photo.height)
    photo.getPixels(colours, 0, photo.width, 0, 0, photo.width, photo.height)
    val image = FloatArray(3 * colours.size) { (colours[it / 3] shr (16 - 8 * (it % 3)) and 255).toFloat() }
    val turned = resizedAndTurned(image, photo.width, photo.height, SIZE)
    val bytes = ByteBuffer.allocateDirect(3 * SIZE * SIZE)
    resizedAndTurned(turned, photo.height, SIZE, SIZE).forEach { bytes.put(it.toInt().toByte()) }
    return bytes.rewind() as ByteBuffer
}

/** The likeliest class of a photo, and its probability. Keep the session for the next photo. */
fun classify(context: Context, photo: Uri): Pair<String, Float> {
    val environment = OrtEnvironment.getEnvironment()
    val session = environment.createSession(context.assets.open("my.onnx").readBytes())
    val classes = JSONObject(session.metadata.customMetadata.getValue("fewset")).getJSONArray("classes")
    val shape = longArrayOf(1, SIZE.toLong(), SIZE.toLong(), 3)
    val input = OnnxTensor.createTensor(environment, pixels(decoded(context, photo)), shape, OnnxJavaType.UINT8)
    session.run(mapOf("pixels" to input)).use { outputs ->
        @Suppress("UNCHECKED_CAST")
        val probabilities = (outputs["probabilities"].get().value as Array<FloatArray>)[0]
        val best = probabilities.indices.maxByOrNull { probabilities[it] }!!
        return classes.getString(best) to probabilities[best]
    }
}
