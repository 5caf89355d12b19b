// Decodes JPEG with libjpeg, whose errors arrive by longjmp. Functions that it may leave in this
// way own nothing with a destructor. Their results are in a JpegReader that outlives the jump.
#include <csetjmp>
#include <cstdint>
#include <cstdio>

// libjpeg's headers need size_t and FILE declared before them.
#include <jpeglib.h>
// After jpeglib.h.
#include <jerror.h>

#include "data/images/image_formats.h"

namespace dpipe::internal {
namespace {

// A progressive file of a few kilobytes can require thousands of passes over a large image.
constexpr int kMaxScans = 200;
constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMaxExifBytes = 0xffff;  // a marker's limit

struct JpegReader {
  jpeg_error_mgr errors;  // first, because libjpeg returns only its address
  jpeg_progress_mgr progress;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};
  jpeg_decompress_struct info = {};
};

void Fail(j_common_ptr info) {
  JpegReader* reader = reinterpret_cast<JpegReader*>(info->err);
  info->err->format_message(info, reader->message);
  longjmp(reader->jump, 1);
}

// After these warnings libjpeg would continue with grey for the missing data; here they are errors.
// Others, such as extra bytes between segments, are common in valid files.
void Warn(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace message
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_ARITH_BAD_CODE) {
    Fail(info);
  }
}

void CheckScans(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= kMaxScans) return;
  JpegReader* reader = reinterpret_cast<JpegReader*>(info->err);
  snprintf(reader->message, sizeof(reader->message), "more than %d scans", kMaxScans);
  longjmp(reader->jump, 1);
}

// Sets the scale to the largest that the limits allow, or to 1 if they allow none.
void ChooseScale(const DecodeLimits& limits, jpeg_decompress_struct* info) {
  const int64_t stored = int64_t{info->image_width} * info->image_height;
  info->scale_num = 1;
  for (const unsigned denominator : {1, 2, 4, 8}) {
    info->scale_denom = denominator;
    jpeg_calc_output_dimensions(info);
    if (FitsLimits(limits, info->output_width, info->output_height)) return;
    if (jpeg_has_multiple_scans(info) || stored > limits.max_stored_pixels) break;
  }
  info->scale_denom = 1;
  jpeg_calc_output_dimensions(info);
}

bool ReadHeader(const ImageSource& source, JpegReader* reader) {
  if (setjmp(reader->jump) != 0) return false;
  jpeg_create_decompress(&reader->info);
  reader->progress.progress_monitor = CheckScans;
  reader->info.progress = &reader->progress;
  jpeg_save_markers(&reader->info, kExifMarker, kMaxExifBytes);
  jpeg_mem_src(&reader->info, reinterpret_cast<const unsigned char*>(source.bytes.data()),
               source.bytes.size());
  jpeg_read_header(&reader->info, TRUE);
  ChooseScale(source.limits, &reader->info);
  return true;
}

void SetErrorHandlers(JpegReader* reader) {
  reader->info.err = jpeg_std_error(&reader->errors);
  reader->errors.error_exit = Fail;
  reader->errors.emit_message = Warn;
}

// APP1 may also contain XMP, in which ExifOrientation finds no orientation.
int OrientationOf(const jpeg_decompress_struct& info) {
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const absl::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    const int orientation = ExifOrientation(data);
    if (orientation != 1) return orientation;
  }
  return 1;
}

// Converts one row of CMYK to RGB. Adobe's files, which are nearly all of them, store inverted
// inks.
void ConvertCmykRow(const uint8_t* cmyk, int width, bool inverted, uint8_t* rgb) {
  for (int x = 0; x < width; ++x) {
    const int key = inverted ? cmyk[x * 4 + 3] : 255 - cmyk[x * 4 + 3];
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? cmyk[x * 4 + c] : 255 - cmyk[x * 4 + c];
      rgb[x * 3 + c] = static_cast<uint8_t>((ink * key + 127) / 255);
    }
  }
}

// `cmyk_row` has room for a row of four bytes per pixel. It is null unless the file is CMYK.
bool ReadRows(JpegReader* reader, Image* image, uint8_t* cmyk_row) {
  jpeg_decompress_struct& info = reader->info;
  if (setjmp(reader->jump) != 0) return false;
  const bool is_cmyk = cmyk_row != nullptr;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    uint8_t* out = image->At(0, static_cast<int>(info.output_scanline));
    JSAMPROW row = is_cmyk ? cmyk_row : out;
    jpeg_read_scanlines(&info, &row, 1);
    if (is_cmyk) ConvertCmykRow(cmyk_row, image->width, info.saw_Adobe_marker, out);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

absl::StatusOr<Image> DecodeJpeg(const ImageSource& source, int* orientation) {
  JpegReader reader;
  SetErrorHandlers(&reader);
  absl::StatusOr<Image> image = CorruptImage(source, "JPEG", "");
  if (ReadHeader(source, &reader)) {
    *orientation = OrientationOf(reader.info);
    image = AllocateImage(source, reader.info.output_width, reader.info.output_height);
    if (image.ok()) {
      const J_COLOR_SPACE space = reader.info.jpeg_color_space;
      std::vector<uint8_t> cmyk_row;
      if (space == JCS_CMYK || space == JCS_YCCK) cmyk_row.resize(image->width * size_t{4});
      uint8_t* row = cmyk_row.empty() ? nullptr : cmyk_row.data();
      if (!ReadRows(&reader, &*image, row)) image = CorruptImage(source, "JPEG", reader.message);
    }
  } else {
    image = CorruptImage(source, "JPEG", reader.message);
  }
  jpeg_destroy_decompress(&reader.info);
  return image;
}

absl::StatusOr<ImageSize> JpegSize(const ImageSource& source, int* orientation) {
  JpegReader reader;
  SetErrorHandlers(&reader);
  absl::StatusOr<ImageSize> size = ImageSize();
  if (ReadHeader(source, &reader)) {
    *orientation = OrientationOf(reader.info);
    size = CheckedSize(source, reader.info.output_width, reader.info.output_height);
  } else {
    size = CorruptImage(source, "JPEG", reader.message);
  }
  jpeg_destroy_decompress(&reader.info);
  return size;
}

}  // namespace dpipe::internal
