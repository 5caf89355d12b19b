// Decodes PNG with libpng, whose errors arrive by longjmp: see image_decode_jpeg.cc.
#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/images/image_formats.h"

namespace dpipe::internal {
namespace {

// Text and colour profiles may be compressed a thousandfold, and we need neither large ones nor
// many. libpng's own limits are 8 MB each and 1,000 of them.
constexpr int kMaxChunkBytes = 1'000'000;
constexpr int kMaxChunks = 32;
constexpr char kTruncated[] = "the file is truncated";

struct PngReader {
  const uint8_t* next = nullptr;
  size_t left = 0;
  jmp_buf jump;
  char message[200] = {};
  bool had_transparency = false;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

void Fail(png_structp png, png_const_charp text) {
  PngReader* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  snprintf(reader->message, sizeof(reader->message), "%s", text);
  longjmp(reader->jump, 1);
}

void Ignore(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep out, size_t count) {
  PngReader* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->left) png_error(png, kTruncated);
  memcpy(out, reader->next, count);
  reader->next += count;
  reader->left -= count;
}

// True if every chunk is inside the bytes, up to the pixels or to the end. libpng allocates the
// length that an eXIf chunk states, up to 2 GB, before it reads any of it.
bool ChunksFit(absl::string_view bytes, bool up_to_pixels) {
  constexpr size_t kSignatureBytes = 8, kHeaderBytes = 8, kChecksumBytes = 4;
  size_t at = kSignatureBytes;
  while (at < bytes.size() && bytes.size() - at >= kHeaderBytes) {
    const size_t length = png_get_uint_32(reinterpret_cast<const uint8_t*>(bytes.data()) + at);
    const absl::string_view kind = bytes.substr(at + 4, 4);
    if (up_to_pixels && kind == "IDAT") return true;
    if (length > bytes.size() - at - kHeaderBytes) return false;
    if (kind == "IEND") return true;
    at += kHeaderBytes + length + kChecksumBytes;
  }
  return true;
}

bool ReadHeader(const DecodeLimits& limits, PngReader* reader) {
  if (setjmp(reader->jump) != 0) return false;
  reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, Fail, Ignore);
  if (reader->png == nullptr) return false;
  reader->info = png_create_info_struct(reader->png);
  if (reader->info == nullptr) return false;
  // We report larger sizes ourselves, with both numbers.
  png_set_user_limits(reader->png, 0x7fffffff, 0x7fffffff);
  png_set_chunk_malloc_max(reader->png, kMaxChunkBytes);
  png_set_chunk_cache_max(reader->png, kMaxChunks);
  png_set_read_fn(reader->png, reader, ReadBytes);
  png_read_info(reader->png, reader->info);
  return true;
}

// Reads an eXIf chunk before the pixels, where most writers put it.
int OrientationOf(PngReader* reader) {
  png_uint_32 count = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(reader->png, reader->info, &count, &exif) == 0) return 1;
  return ExifOrientation(absl::string_view(reinterpret_cast<const char*>(exif), count));
}

// A libpng transform: composites a row of RGBA on white, in place, to RGB. libpng then spreads the
// rows of interlaced images, so no second image is needed.
void CompositeRow(png_structp png, png_row_infop row, png_bytep samples) {
  PngReader* reader = static_cast<PngReader*>(png_get_user_transform_ptr(png));
  for (png_uint_32 x = 0; x < row->width; ++x) {
    const uint8_t alpha = samples[4 * x + 3];
    reader->had_transparency |= alpha != 255;
    for (int c = 0; c < 3; ++c) samples[3 * x + c] = OverWhite(samples[4 * x + c], alpha);
  }
}

bool ReadRows(PngReader* reader, png_bytepp rows, size_t row_bytes) {
  if (setjmp(reader->jump) != 0) return false;
  png_set_expand(reader->png);
  png_set_scale_16(reader->png);
  png_set_gray_to_rgb(reader->png);
  if ((png_get_color_type(reader->png, reader->info) & PNG_COLOR_MASK_ALPHA) != 0 ||
      png_get_valid(reader->png, reader->info, PNG_INFO_tRNS) != 0) {
    png_set_read_user_transform_fn(reader->png, CompositeRow);
    png_set_user_transform_info(reader->png, reader, /*depth=*/8, /*channels=*/3);
  }
  png_set_interlace_handling(reader->png);
  png_read_update_info(reader->png, reader->info);
  if (png_get_rowbytes(reader->png, reader->info) != row_bytes) {
    png_error(reader->png, "rows are not three bytes per pixel");
  }
  png_read_image(reader->png, rows);
  png_read_end(reader->png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<Image> DecodePng(const ImageSource& source, int* orientation) {
  if (!ChunksFit(source.bytes, /*up_to_pixels=*/false)) {
    return CorruptImage(source, "PNG", kTruncated);
  }
  PngReader reader;
  reader.next = reinterpret_cast<const uint8_t*>(source.bytes.data());
  reader.left = source.bytes.size();
  absl::StatusOr<Image> image = CorruptImage(source, "PNG", "");
  if (ReadHeader(source.limits, &reader)) {
    *orientation = OrientationOf(&reader);
    image = AllocateImage(source, png_get_image_width(reader.png, reader.info),
                          png_get_image_height(reader.png, reader.info));
    if (image.ok()) {
      std::vector<png_bytep> rows(image->height);
      for (int y = 0; y < image->height; ++y) rows[y] = image->At(0, y);
      if (!ReadRows(&reader, rows.data(), image->width * size_t{3})) {
        image = CorruptImage(source, "PNG", reader.message);
      } else {
        image->had_transparency = reader.had_transparency;
      }
    }
  } else {
    image = CorruptImage(source, "PNG", reader.message);
  }
  if (reader.png != nullptr) png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  return image;
}

absl::StatusOr<ImageSize> PngSize(const ImageSource& source, int* orientation) {
  if (!ChunksFit(source.bytes, /*up_to_pixels=*/true))
    return CorruptImage(source, "PNG", kTruncated);
  PngReader reader;
  reader.next = reinterpret_cast<const uint8_t*>(source.bytes.data());
  reader.left = source.bytes.size();
  absl::StatusOr<ImageSize> size = ImageSize();
  if (ReadHeader(source.limits, &reader)) {
    *orientation = OrientationOf(&reader);
    size = CheckedSize(source, png_get_image_width(reader.png, reader.info),
                       png_get_image_height(reader.png, reader.info));
  } else {
    size = CorruptImage(source, "PNG", reader.message);
  }
  if (reader.png != nullptr) png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  return size;
}

}  // namespace dpipe::internal
