#include "data/images/image_encode.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>

// libjpeg's header needs size_t and FILE declared before it.
#include <jpeglib.h>
#include <png.h>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

// libjpeg's error manager must come first in the struct, because libjpeg returns only its address.
struct JpegErrors {
  jpeg_error_mgr manager;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

void FailJpeg(j_common_ptr info) {
  JpegErrors* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  longjmp(errors->jump, 1);
}

// The part that libjpeg may leave by longjmp, so it owns nothing with a destructor.
bool CompressJpeg(const Image& image, int quality, JpegErrors* errors, unsigned char** bytes,
                  unsigned long* size) {
  jpeg_compress_struct info;
  info.err = jpeg_std_error(&errors->manager);
  errors->manager.error_exit = FailJpeg;
  if (setjmp(errors->jump) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, bytes, size);
  info.image_width = image.width;
  info.image_height = image.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  info.comp_info[0].h_samp_factor = 1;
  info.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.At(0, static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

}  // namespace

absl::StatusOr<std::string> EncodePng(const Image& image) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = image.width;
  png.height = image.height;
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&png, &bytes[0], &size, /*convert_to_8_bit=*/0,
                                 image.pixels.data(), /*row_stride=*/image.width * 3, nullptr)) {
    return absl::InternalError(absl::StrCat("libpng cannot encode: ", png.message));
  }
  bytes.resize(size);
  return bytes;
}

absl::StatusOr<std::string> EncodeJpeg(const Image& image, int quality) {
  DPIPE_CHECK(quality >= 1 && quality <= 100) << "JPEG quality " << quality;
  JpegErrors errors;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool good = CompressJpeg(image, quality, &errors, &bytes, &size);
  std::string result;
  if (good) result.assign(reinterpret_cast<char*>(bytes), size);
  free(bytes);
  if (!good) return absl::InternalError(absl::StrCat("libjpeg cannot encode: ", errors.message));
  return result;
}

}  // namespace dpipe
