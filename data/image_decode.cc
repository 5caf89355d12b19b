#include "data/image_decode.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "data/image_formats.h"

namespace dpipe {

absl::StatusOr<Image> DecodeImage(absl::string_view bytes, const std::string& name,
                                  const DecodeLimits& limits) {
  if (static_cast<int64_t>(bytes.size()) > limits.max_file_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name, ": ", bytes.size(), " bytes, more than the limit of ", limits.max_file_bytes));
  }
  const internal::ImageSource source = {bytes, name, limits};
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return internal::DecodeJpeg(source);
  if (absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n")) return internal::DecodePng(source);
  if (bytes.size() >= 12 && absl::StartsWith(bytes, "RIFF") && bytes.substr(8, 4) == "WEBP") {
    return internal::DecodeWebp(source);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", bytes.empty() ? "empty" : "neither JPEG nor PNG nor WebP"));
}

absl::StatusOr<Image> ReadImage(const std::string& path, const DecodeLimits& limits) {
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, limits.max_file_bytes));
  return DecodeImage(bytes, path, limits);
}

namespace internal {

absl::StatusOr<Image> AllocateImage(const ImageSource& source, int64_t width, int64_t height) {
  const DecodeLimits& limits = source.limits;
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.name, ": ", width, " x ", height, " pixels"));
  }
  if (width > limits.max_side || height > limits.max_side || width * height > limits.max_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat(source.name, ": ", width, " x ", height, " pixels, more than the limit of ",
                     limits.max_side, " a side or ", limits.max_pixels, " in all"));
  }
  return Image(static_cast<int>(width), static_cast<int>(height));
}

absl::Status CorruptImage(const ImageSource& source, absl::string_view format,
                          absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(source.name, ": corrupt ", format, ": ", reason));
}

}  // namespace internal
}  // namespace dpipe
