#include "data/images/image_decode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/file_kind.h"
#include "data/images/image_formats.h"
#include "data/tars/file_part.h"

namespace dpipe {
namespace {

enum class Format { kJpeg, kPng, kWebp };

absl::StatusOr<Format> FormatOf(absl::string_view bytes, const std::string& name,
                                const DecodeLimits& limits) {
  if (static_cast<int64_t>(bytes.size()) > limits.max_file_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", bytes.size(), " bytes, more than the limit of ", limits.max_file_bytes));
  }
  const FileKind kind = KindOfFile(bytes);
  switch (kind) {
    case FileKind::kJpeg:
      return Format::kJpeg;
    case FileKind::kPng:
      return Format::kPng;
    case FileKind::kWebp:
      return Format::kWebp;
    default:
      break;
  }
  const absl::string_view advice = FileKindAdvice(kind);
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": ", FileKindName(kind),
      advice.empty() ? ", not a JPEG, PNG or WebP image; convert it, or leave it out" : ": ",
      advice));
}

}  // namespace

absl::StatusOr<Image> DecodeImage(absl::string_view bytes, const std::string& name,
                                  const DecodeLimits& limits) {
  DPIPE_ASSIGN_OR_RETURN(const Format format, FormatOf(bytes, name, limits));
  const internal::ImageSource source = {bytes, name, limits};
  int orientation = 1;
  absl::StatusOr<Image> image = format == Format::kJpeg ? internal::DecodeJpeg(source, &orientation)
                                : format == Format::kPng
                                    ? internal::DecodePng(source, &orientation)
                                    : internal::DecodeWebp(source, &orientation);
  if (!image.ok() || orientation == 1) return image;
  const bool had_transparency = image->had_transparency;
  Image upright = ApplyOrientation(*std::move(image), orientation);
  upright.had_transparency = had_transparency;
  return upright;
}

absl::StatusOr<ImageSize> DecodeImageSize(absl::string_view bytes, const std::string& name,
                                          const DecodeLimits& limits) {
  DPIPE_ASSIGN_OR_RETURN(const Format format, FormatOf(bytes, name, limits));
  const internal::ImageSource source = {bytes, name, limits};
  int orientation = 1;
  absl::StatusOr<ImageSize> size =
      format == Format::kJpeg  ? internal::JpegSize(source, &orientation)
      : format == Format::kPng ? internal::PngSize(source, &orientation)
                               : internal::WebpSize(source, &orientation);
  if (size.ok() && orientation >= 5) std::swap(size->width, size->height);
  return size;
}

absl::StatusOr<ImageSize> ReadImageSize(const std::string& path, int64_t offset, int64_t size,
                                        const std::string& name, const DecodeLimits& limits) {
  // Enough for most headers. A preview in EXIF data takes up to 64 KiB, a colour profile more.
  constexpr int64_t kFirstBytes = 8 << 10;
  const int64_t whole = std::min(size, limits.max_file_bytes);
  DPIPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::string bytes;
  for (int64_t wanted = std::min(whole, kFirstBytes);; wanted = std::min(whole, 2 * wanted)) {
    const int64_t known = static_cast<int64_t>(bytes.size());
    DPIPE_ASSIGN_OR_RETURN(const std::string more, file.Read(offset + known, wanted - known));
    bytes += more;
    if (known == 0) DPIPE_RETURN_IF_ERROR(FormatOf(bytes, name, limits).status());
    // A WebP's EXIF data comes last.
    if (wanted < whole && internal::WebpHasExif(bytes)) continue;
    absl::StatusOr<ImageSize> found = DecodeImageSize(bytes, name, limits);
    // Only an apparently corrupt image may be a truncated one.
    if (wanted == whole || !absl::IsInvalidArgument(found.status())) return found;
  }
}

absl::StatusOr<Image> ReadImage(const std::string& path, const DecodeLimits& limits) {
  DPIPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > limits.max_file_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", file.size(), " bytes, more than the limit of ", limits.max_file_bytes));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes, file.Read(0, file.size()));
  return DecodeImage(bytes, path, limits);
}

namespace internal {

bool FitsLimits(const DecodeLimits& limits, int64_t width, int64_t height) {
  return width <= limits.max_side && height <= limits.max_side &&
         width * height <= limits.max_pixels;
}

absl::StatusOr<ImageSize> CheckedSize(const ImageSource& source, int64_t width, int64_t height) {
  const DecodeLimits& limits = source.limits;
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.name, ": ", width, " x ", height, " pixels"));
  }
  if (!FitsLimits(limits, width, height)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.name, ": ", width, " x ", height, " pixels, more than the limit of ",
                     limits.max_side, " per side or ", limits.max_pixels, " in total"));
  }
  return ImageSize{static_cast<int>(width), static_cast<int>(height)};
}

absl::StatusOr<Image> AllocateImage(const ImageSource& source, int64_t width, int64_t height) {
  DPIPE_ASSIGN_OR_RETURN(const ImageSize size, CheckedSize(source, width, height));
  return Image(size.width, size.height);
}

absl::Status CorruptImage(const ImageSource& source, absl::string_view format,
                          absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(source.name, ": corrupt ", format, ": ", reason));
}

}  // namespace internal
}  // namespace dpipe
